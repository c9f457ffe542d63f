// SPDX-License-Identifier: Apache-2.0
// made_again_test.cpp: what relu was given by a batch norm, made again of x on the way back: one step, and the same mask, element by
// element, as of what the way forward stored.
#include "norms.hpp"

using namespace cpu_test;

namespace {

// Values of the way back. `other` is a gradient that joins dy, `own` whether apply has the gradient's own scale and statistics.
struct Back {
  Nodes g;
  size_t x = 0, dy = 0, other = 0, scale = 0, bias = 0, mean = 0, inverse = 0;  // given
  size_t whole = 0, y = 0, dz = 0, dx = 0, dscale = 0, dbias = 0;               // made

  Back(Random& random, uint32_t dtype, const Dims& dims, Lies lies) {
    const Dims strides = strides_of(lies, dims), channels = {dims[1]};
    const uint32_t statistics = statistics_of(dtype);
    x = g.input(random, dtype, dims, strides);
    dy = g.input(random, dtype, dims, strides);
    scale = g.input(random, statistics, channels);
    bias = g.input(random, statistics, channels);
    mean = g.input(random, statistics, channels, {}, -1, 1);
    inverse = g.input(random, statistics, channels, {}, 0.5L, 2);
    y = g.value(dtype, dims, strides);
    dz = g.value(dtype, dims, strides);
    dx = g.value(dtype, dims, strides);
    dscale = g.value(statistics, channels);
    dbias = g.value(statistics, channels);
    g.wanted = {dx, dscale, dbias};
    whole = dy;
  }
  Back& join(Random& random) {
    const Tensor& like = g.values[dy];
    other = g.input(random, like.dtype, Dims(like.dims), Dims(like.strides));
    whole = g.value(g.values[dy].dtype, Dims(g.values[dy].dims), Dims(g.values[dy].strides));
    g.nodes.push_back(add(dy, other, whole));
    return *this;
  }
  Back& apply() {
    g.nodes.push_back({TN_OP_batch_norm_apply, {x, scale, bias, mean, inverse}, {y}});
    return *this;
  }
  Back& finish() {
    g.nodes.push_back({TN_OP_relu_grad, {whole, y}, {dz}});
    g.nodes.push_back({TN_OP_batch_norm_grad, {dz, x, scale, mean, inverse}, {dx, dscale, dbias}});
    return *this;
  }
};

}  // namespace

TEST_CASE("bn_act_backward: it is one step, in any order of its nodes, and equals them bit for bit") {
  Random random(tenon::test::seed());
  for (const Strategy& strategy : engines()) {
    CAPTURE(strategy.name());
    Bench bench = bench_of(strategy);
    for (const uint32_t dtype : float_dtypes) {
      for (const Dims& dims : images) {
        for (const Lies lies : {Lies::planes, Lies::pixels, Lies::gaps}) {
          const auto back = [&] { return Back(random, dtype, dims, lies); };
          check_same(bench, back().apply().finish().g, true);
          check_same(bench, back().join(random).apply().finish().g, true);
          check_same(bench, back().apply().join(random).finish().g, true);
        }
      }
    }
  }
}

TEST_CASE("bn_act_backward: the gradient may be of other statistics, as long as it is of the same x") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const Lies lies : {Lies::planes, Lies::pixels}) {
    for (const Dims& dims : images) {
      Back of_others(random, TN_DTYPE_f32, dims, lies);
      of_others.apply().finish();
      for (const size_t i : {2u, 3u, 4u})
        of_others.g.nodes.back().in[i] = of_others.g.input(random, TN_DTYPE_f32, {dims[1]}, {}, 0.5L, 2);
      check_same(bench, of_others.g, true);
      Back of_another(random, TN_DTYPE_f32, dims, lies);
      of_another.apply().finish();
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
      Back back(random, TN_DTYPE_f32, {3, 70, 4, 4}, lies);
      back.apply().finish();
      back.g.wanted.push_back(mask ? back.dz : back.y);
      check_same(bench, back.g, false);
    }
    Back itself(random, TN_DTYPE_f32, {3, 70, 4, 4}, lies);  // dy is y
    itself.apply();
    itself.whole = itself.y;
    itself.finish();
    check_same(bench, itself.g, false);
  }
}

// Numbers next to 1, of which y is about 0, by statistics that the way forward gave; `scale` brings y down to what the type no longer
// tells from 0. A NaN and both infinities stand among them with `odd`, where the statistics are those without.
TEST_CASE("bn_act_backward: its mask is that of what batch_norm_train and relu stored, element by element") {
  const Dims dims{3, 5, 4, 7};
  for (const Strategy& strategy : engines()) {
    CAPTURE(strategy.name());
    Bench bench = bench_of(strategy);
    for (const auto& way : {std::pair<uint32_t, Number>{TN_DTYPE_f32, 1.0L},
                            {TN_DTYPE_f32, 1e-36L},
                            {TN_DTYPE_f64, 1.0L},
                            {TN_DTYPE_bf16, 0.5L},
                            {TN_DTYPE_bf16, 1e-38L},
                            {TN_DTYPE_f16, 0.5L},
                            {TN_DTYPE_f16, 5e-8L}}) {
      const uint32_t dtype = way.first;
      const Number slope = way.second;
      for (const Lies lies : {Lies::planes, Lies::pixels}) {
        for (const bool odd : {false, true}) {
          CAPTURE(dtype);
          CAPTURE(slope);
          CAPTURE(odd);
          Random random(11);
          const uint32_t statistics = statistics_of(dtype);
          Nodes g = forward(random, dtype, dims, lies, false, TN_OP_relu);
          const size_t x = 0, scale = 1, bias = 2, mean = g.nodes[0].out[1], inverse = g.nodes[0].out[2],
                       z = g.nodes[1].out[0];
          g.wanted = {mean, inverse, z};
          for_each(dims, [&](const Dims& at) {
            g.values[x].set(at, 1 + static_cast<Number>(random() % 9) * ulp(1, dtype));
          });
          for (int64_t c = 0; c < dims[1]; ++c) {
            g.values[scale].set({c}, rounded(slope, statistics));
            g.values[bias].set({c}, rounded(slope * (-0.4L + 0.2L * static_cast<Number>(c)), statistics));
          }
          std::vector<Tensor> stored = g.run_fused(bench);
          if (odd) {
            const Number inf = std::numeric_limits<Number>::infinity();
            g.values[x].set({0, 1, 2, 3}, std::numeric_limits<Number>::quiet_NaN());
            g.values[x].set({0, 1, 2, 4}, inf);
            g.values[x].set({2, 4, 0, 6}, -inf);
            Nodes again = g;
            again.nodes = {{TN_OP_batch_norm_apply, {x, scale, bias, mean, inverse}, {g.nodes[0].out[0]}},
                           g.nodes[1]};
            again.inputs = {x, scale, bias, mean, inverse};
            again.wanted = {z};
            again.values[mean] = stored[mean];
            again.values[inverse] = stored[inverse];
            stored[z] = again.run_fused(bench)[z];
          }
          Back made(random, dtype, dims, lies);
          made.apply().finish();
          made.g.values[made.x] = g.values[x];
          made.g.values[made.scale] = g.values[scale];
          made.g.values[made.bias] = g.values[bias];
          made.g.values[made.mean] = stored[mean];
          made.g.values[made.inverse] = stored[inverse];
          Nodes by_y = made.g;
          by_y.nodes.erase(by_y.nodes.begin());
          by_y.inputs.push_back(made.y);
          by_y.values[made.y] = stored[z];
          std::erase(by_y.inputs, made.bias);
          const std::vector<Tensor> a = made.g.run_fused(bench), b = by_y.run_fused(bench);
          for (const size_t i : made.g.wanted) CHECK(a[i].bytes == b[i].bytes);
          size_t through = 0;
          for_each(dims, [&](const Dims& at) { through += stored[z].at(at) > 0; });
          CHECK(through > 40);
          CHECK(through < 380);
        }
      }
    }
  }
}
