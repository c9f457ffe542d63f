// SPDX-License-Identifier: Apache-2.0
// made_again_test.cpp: what relu was given by a batch norm, made again of x on the way back: one step, and the same mask, element by
// element, as of what the way forward stored.
#include "norms.hpp"

using namespace cpu_test;

namespace {

// Numbers next to 1, of which y is about 0; `slope` brings y down to what the type no longer tells from 0.
struct Around {
  uint32_t dtype;
  Number slope;
};
constexpr Around arounds[] = {{TN_DTYPE_f32, 1.0L},  {TN_DTYPE_f32, 1e-36L},  {TN_DTYPE_f64, 1.0L},
                              {TN_DTYPE_bf16, 0.5L}, {TN_DTYPE_bf16, 1e-38L}, {TN_DTYPE_f16, 0.5L},
                              {TN_DTYPE_f16, 5e-8L}};
const Dims small{3, 5, 4, 7};

// What a way forward was given, and what it gave: the statistics, and relu's result.
struct WayForward {
  Tensor x, scale, bias, mean, inverse, z;
};

WayForward run_forward(Bench& bench, const Around& around, Lies lies) {
  Random random(11);
  Nodes g = forward(random, around.dtype, small, lies, false, TN_OP_relu);
  const size_t mean = g.nodes[0].out[1], inverse = g.nodes[0].out[2], z = g.nodes[1].out[0];
  g.wanted = {mean, inverse, z};
  for_each(small, [&](const Dims& at) {
    g.values[0].set(at, 1 + static_cast<Number>(random() % 9) * ulp(1, around.dtype));
  });
  for (int64_t c = 0; c < small[1]; ++c) {
    const Number level = around.slope * (-0.4L + 0.2L * static_cast<Number>(c));
    g.values[1].set({c}, rounded(around.slope, statistics_of(around.dtype)));
    g.values[2].set({c}, rounded(level, statistics_of(around.dtype)));
  }
  const std::vector<Tensor> now = g.run_fused(bench);
  return {now[0], now[1], now[2], now[mean], now[inverse], now[z]};
}

// A NaN and both infinities among the numbers, by the statistics of those without.
void put_odd(Bench& bench, WayForward& f) {
  const Number inf = std::numeric_limits<Number>::infinity();
  f.x.set({0, 1, 2, 3}, std::numeric_limits<Number>::quiet_NaN());
  f.x.set({0, 1, 2, 4}, inf);
  f.x.set({2, 4, 0, 6}, -inf);
  Nodes g;
  g.values = {f.x, f.scale, f.bias, f.mean, f.inverse, f.z, f.z};
  g.inputs = {0, 1, 2, 3, 4};
  g.nodes = {{TN_OP_batch_norm_apply, {0, 1, 2, 3, 4}, {5}}, {TN_OP_relu, {5}, {6}}};
  g.wanted = {6};
  f.z = g.run_fused(bench)[6];
}

// dx and the gradients of scale and bias, by the z that is stored or by what is made again of x.
std::vector<std::vector<std::byte>> run_back(Bench& bench, const WayForward& f, Lies lies, bool stored) {
  Random random(12);
  WayBack back(random, f.x.dtype, small, lies);
  (stored ? back.read_y(random) : back.make_y(random)).finish();
  back.g.values[back.x] = f.x;
  back.g.values[back.scale] = f.scale;
  back.g.values[back.mean] = f.mean;
  back.g.values[back.inverse] = f.inverse;
  back.g.values[stored ? back.y : back.bias] = stored ? f.z : f.bias;
  const std::vector<Tensor> now = back.g.run_fused(bench);
  std::vector<std::vector<std::byte>> out;
  for (const size_t i : {back.dx, back.dscale, back.dbias}) out.push_back(now[i].bytes);
  return out;
}

}  // namespace

TEST_CASE("bn_act_backward: it is one step, in any order of its nodes, and equals them bit for bit") {
  Random random(tenon::test::seed());
  on_every_image([&](Bench& bench, uint32_t dtype, const Dims& dims, Lies lies) {
    const auto back = [&] { return WayBack(random, dtype, dims, lies); };
    check_same(bench, back().make_y(random).finish().g);
    check_same(bench, back().join(random).make_y(random).finish().g);
    check_same(bench, back().make_y(random).join(random).finish().g);
  });
}

TEST_CASE("bn_act_backward: dx may be written over dy, or over x") {
  Random random(tenon::test::seed());
  on_every_image([&](Bench& bench, uint32_t dtype, const Dims& dims, Lies lies) {
    WayBack back(random, dtype, dims, lies);
    if (random() % 2 == 0) back.join(random);
    back.make_y(random).finish();
    check_in_place(bench, back.g, back.dy, back.dx);
    check_in_place(bench, back.g, back.x, back.dx);
  });
}

TEST_CASE("bn_act_backward: the gradient may be of other statistics, as long as it is of the same x") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const Lies lies : {Lies::planes, Lies::pixels}) {
    for (const Dims& dims : images) {
      WayBack of_others(random, TN_DTYPE_f32, dims, lies);
      of_others.make_y(random).finish();
      for (const size_t i : {2u, 3u, 4u})
        of_others.g.nodes.back().in[i] = of_others.g.input(random, TN_DTYPE_f32, {dims[1]}, {}, 0.5L, 2);
      check_same(bench, of_others.g);
      WayBack of_another(random, TN_DTYPE_f32, dims, lies);
      of_another.make_y(random).finish();
      of_another.g.nodes.back().in[1] =
          of_another.g.input(random, TN_DTYPE_f32, dims, strides_of(lies, dims));
      check_same(bench, of_another.g, false);
    }
  }
}

TEST_CASE("bn_act_backward: what others want, too, is made in a step of its own") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const Lies lies : {Lies::planes, Lies::pixels}) {
    for (const bool mask : {false, true}) {
      WayBack back(random, TN_DTYPE_f32, {3, 70, 4, 4}, lies);
      back.make_y(random).finish();
      back.g.wanted.push_back(mask ? back.dz : back.y);
      check_same(bench, back.g, false);
    }
    WayBack itself(random, TN_DTYPE_f32, {3, 70, 4, 4}, lies);  // dy is y
    itself.make_y(random);
    itself.whole = itself.y;
    itself.finish();
    check_same(bench, itself.g, false);
  }
}

TEST_CASE("batch norm: apply makes of the statistics that train gave what train made of them, bit for bit") {
  Random random(tenon::test::seed());
  for (const Strategy& strategy : engines()) {
    CAPTURE(strategy.name());
    Bench bench = bench_of(strategy);
    for (const uint32_t dtype : float_dtypes) {
      for (const Dims& dims : images) {
        for (const Lies lies : {Lies::planes, Lies::pixels}) {
          CAPTURE(label(TN_OP_batch_norm_apply, dtype, dims));
          Nodes train = forward(random, dtype, dims, lies, false, TN_OP_relu);
          const NodeOf& node = train.nodes[0];
          const size_t y = node.out[0], mean = node.out[1], inverse = node.out[2];
          train.wanted = {y, mean, inverse};
          Nodes apply = train;
          apply.values = train.run_fused(bench);
          apply.inputs = {0, 1, 2, mean, inverse};
          apply.wanted = {y};
          apply.nodes = {{TN_OP_batch_norm_apply, {0, 1, 2, mean, inverse}, {y}}};
          CHECK(apply.run_fused(bench)[y].bytes == apply.values[y].bytes);
        }
      }
    }
  }
}

TEST_CASE("bn_act_backward: its mask is that of what batch_norm_train and relu stored, element by element") {
  for (const Strategy& strategy : engines()) {
    CAPTURE(strategy.name());
    Bench bench = bench_of(strategy);
    for (const Around& around : arounds) {
      for (const Lies lies : {Lies::planes, Lies::pixels}) {
        for (const bool odd : {false, true}) {
          CAPTURE(around.dtype);
          CAPTURE(around.slope);
          CAPTURE(odd);
          WayForward f = run_forward(bench, around, lies);
          if (odd) put_odd(bench, f);
          CHECK(run_back(bench, f, lies, false) == run_back(bench, f, lies, true));
          size_t through = 0;
          for_each(small, [&](const Dims& at) { through += f.z.at(at) > 0; });
          CHECK(through > 40);
          CHECK(through < 380);
        }
      }
    }
  }
}
