// SPDX-License-Identifier: Apache-2.0
// norm_test.cpp: normalisations with the elementwise nodes around them.
//
// Invariant: what runs in one step is compared bit for bit with its nodes one by one.
#include "norms.hpp"

using namespace cpu_test;

namespace {

// `joined`: of a sum of two gradients; `shared`: the activation's gradient is wanted, too.
Nodes backward(Random& random, uint32_t dtype, const Dims& dims, Lies lies, bool joined, bool shared) {
  WayBack back(random, dtype, dims, lies);
  if (joined) back.join(random);
  back.read_y(random).finish();
  if (shared) back.g.wanted.push_back(back.dz);
  return back.g;
}

// [add, layer_norm or rms_norm, relu]; `sum`: the sum goes on, too.
Nodes residual_norm(Random& random, uint32_t dtype, const Dims& dims, uint32_t op, bool sum) {
  Nodes g;
  const uint32_t statistics = statistics_of(dtype);
  const Dims rows(dims.begin(), dims.end() - 1), row = {dims.back()};
  const size_t a = g.input(random, dtype, dims), b = g.input(random, dtype, dims),
               scale = g.input(random, statistics, row), bias = g.input(random, statistics, row);
  const size_t s = g.value(dtype, dims), y = g.value(dtype, dims), mean = g.value(statistics, rows),
               inverse = g.value(statistics, rows), z = g.value(dtype, dims);
  g.nodes.push_back(add(a, b, s));
  g.nodes.push_back({op, {s, scale}, {y}, {{"axes", 1}}, {{"epsilon", 1e-5}}});
  g.wanted = {inverse, z};
  if (op == TN_OP_layer_norm) {
    g.nodes.back().in.push_back(bias);
    g.nodes.back().out.push_back(mean);
    g.wanted.push_back(mean);
  } else {
    std::erase(g.inputs, bias);
  }
  g.nodes.back().out.push_back(inverse);
  g.nodes.push_back({TN_OP_relu, {y}, {z}});
  if (sum) g.wanted.push_back(s);
  return g;
}

// [an activation's gradient, then layer_norm_grad].
Nodes row_gradient(Random& random, uint32_t dtype, const Dims& dims) {
  Nodes g;
  const uint32_t statistics = statistics_of(dtype);
  const Dims rows(dims.begin(), dims.end() - 1), row = {dims.back()};
  const size_t dy = g.input(random, dtype, dims), y = g.input(random, dtype, dims),
               x = g.input(random, dtype, dims), scale = g.input(random, statistics, row),
               mean = g.input(random, statistics, rows, {}, -1, 1),
               inverse = g.input(random, statistics, rows, {}, 0.5L, 2);
  const size_t dz = g.value(dtype, dims), dx = g.value(dtype, dims), dscale = g.value(statistics, row),
               dbias = g.value(statistics, row);
  g.nodes.push_back({TN_OP_relu_grad, {dy, y}, {dz}});
  g.nodes.push_back(
      {TN_OP_layer_norm_grad, {dz, x, scale, mean, inverse}, {dx, dscale, dbias}, {{"axes", 1}}});
  g.wanted = {dx, dscale, dbias};
  return g;
}

// [softmax, or its gradient, then a product].
Nodes shares(Random& random, uint32_t dtype, const Dims& dims, uint32_t op) {
  Nodes g;
  std::vector<size_t> in{g.input(random, dtype, dims)};
  if (op == TN_OP_softmax_grad) in.push_back(g.input(random, dtype, dims));
  const size_t gate = g.input(random, dtype, dims), y = g.value(dtype, dims), z = g.value(dtype, dims);
  g.nodes.push_back({op, in, {y}, {{"axis", -1}}});
  g.nodes.push_back({TN_OP_mul, {y, gate}, {z}});
  g.wanted = {y, z};
  return g;
}

// x in dims with what a batch norm reads beside it.
struct NormInputs {
  NormInputs(uint32_t dtype, const Dims& dims, Random& random)
      : x(dtype, dims), channels(4, Tensor(TN_DTYPE_f32, {dims[1]})) {
    randomize(x, random, false);
    for (Tensor& tensor : channels) {
      for_each(tensor.dims,
               [&](const Dims& at) { tensor.set(at, 0.5L + static_cast<Number>(random() % 8) / 4); });
    }
  }
  std::vector<const Tensor*> all() const {
    return {&x, &channels[0], &channels[1], &channels[2], &channels[3]};
  }
  std::vector<uint32_t> in(FragmentBuilder& f) const {
    std::vector<uint32_t> out;
    for (const Tensor* one : all()) out.push_back(f.input(one->dtype, one->dims));
    return out;
  }
  Tensor x;
  std::vector<Tensor> channels;
};

}  // namespace

TEST_CASE("batch norm: with a residual and an activation in one step it equals its parts, bit for bit") {
  Random random(tenon::test::seed());
  for (const Strategy& strategy : engines()) {
    CAPTURE(strategy.name());
    Bench bench = bench_of(strategy);
    for (const uint32_t dtype : float_dtypes) {
      for (const Dims& dims : images) {
        for (const Lies lies : {Lies::planes, Lies::pixels}) {
          for (const bool residual : {false, true}) {
            const uint32_t activation = random() % 4 == 0 ? TN_OP_gelu : TN_OP_relu;
            check_same(bench, forward(random, dtype, dims, lies, residual, activation));
          }
        }
        check_same(bench, forward(random, dtype, dims, Lies::gaps, true, TN_OP_relu));
      }
    }
  }
}

TEST_CASE(
    "batch norm's gradient: after an activation's, and gradients that join, in one step it equals its parts, "
    "bit for bit") {
  Random random(tenon::test::seed());
  for (const Strategy& strategy : engines()) {
    CAPTURE(strategy.name());
    Bench bench = bench_of(strategy);
    for (const uint32_t dtype : float_dtypes) {
      for (const Dims& dims : images) {
        for (const Lies lies : {Lies::planes, Lies::pixels, Lies::gaps}) {
          for (const bool joined : {false, true}) {
            for (const bool shared : {false, true})
              check_same(bench, backward(random, dtype, dims, lies, joined, shared));
          }
        }
      }
    }
  }
}

TEST_CASE("layer and RMS norm: with their neighbours in one step they equal their parts, bit for bit") {
  Random random(tenon::test::seed());
  for (const Strategy& strategy : engines()) {
    CAPTURE(strategy.name());
    Bench bench = bench_of(strategy);
    for (const uint32_t dtype : float_dtypes) {
      for (const Dims& dims : {Dims{7, 33}, Dims{3, 5, 1024}, Dims{2, 2500}, Dims{300, 1}}) {
        for (const uint32_t op : {TN_OP_layer_norm, TN_OP_rms_norm}) {
          for (const bool sum : {false, true}) check_same(bench, residual_norm(random, dtype, dims, op, sum));
        }
        check_same(bench, row_gradient(random, dtype, dims));
      }
    }
  }
}

TEST_CASE("layer norm: the mean of a row with an infinity is that infinity, in rows of one element too") {
  const Number inf = std::numeric_limits<Number>::infinity();
  for (const Strategy& strategy : engines()) {
    CAPTURE(strategy.name());
    Bench bench = bench_of(strategy);
    for (const int64_t length : {1, 33, 5'000}) {
      FragmentBuilder f("layer_norm");
      const uint32_t x = f.input(TN_DTYPE_f32, {3, length}), scale = f.input(TN_DTYPE_f32, {length}),
                     bias = f.input(TN_DTYPE_f32, {length}), y = f.output(TN_DTYPE_f32, {3, length}),
                     mean = f.output(TN_DTYPE_f32, {3}), inverse = f.output(TN_DTYPE_f32, {3});
      f.node(TN_OP_layer_norm, {x, scale, bias}, {y, mean, inverse}).integer("axes", 1).real("epsilon", 1e-5);
      Tensor rows(TN_DTYPE_f32, {3, length}), ones(TN_DTYPE_f32, {length}), got(TN_DTYPE_f32, {3, length}),
          means(TN_DTYPE_f32, {3}), inverses(TN_DTYPE_f32, {3});
      for_each(rows.dims, [&](const Dims& at) { rows.set(at, 2); });
      for_each(ones.dims, [&](const Dims& at) { ones.set(at, 1); });
      rows.set({0, length / 2}, -inf);
      rows.set({2, 0}, inf);
      bench.run(compile(bench.device, f.fragment()), {&rows, &ones, &ones}, {&got, &means, &inverses});
      CHECK(means.at({0}) == -inf);
      CHECK(means.at({1}) == 2);
      CHECK(means.at({2}) == inf);
    }
  }
}

TEST_CASE(
    "norms: loops are of the instruction set that a kernel was compiled for, whatever is opened after it") {
  const std::vector<Strategy> ways = strategies();
  const auto is_fused = [](const Strategy& way) { return way.isa == "avx2" && way.engine == "interpreter"; };
  if (std::none_of(ways.begin(), ways.end(), is_fused))
    TENON_SKIP("avx2", "this machine has no two instruction sets that round differently");
  Random random(tenon::test::seed());
  const Dims dims = {64, 130};
  FragmentBuilder f("layer norm");
  Tensor x(TN_DTYPE_f32, dims), scale(TN_DTYPE_f32, {130}), bias(TN_DTYPE_f32, {130});
  for (Tensor* one : {&x, &scale, &bias}) randomize(*one, random, false);
  const std::vector<uint32_t> in = {f.input(TN_DTYPE_f32, dims), f.input(TN_DTYPE_f32, {130}),
                                    f.input(TN_DTYPE_f32, {130})};
  f.node(TN_OP_layer_norm, in, {f.output(TN_DTYPE_f32, dims)}).integer("axes", 1).real("epsilon", 1e-5);
  const auto run = [&](Bench& bench, const Kernel& kernel) {
    Tensor y(TN_DTYPE_f32, dims);
    bench.run(kernel, {&x, &scale, &bias}, {&y});
    return y.bytes;
  };
  // SSE2 rounds a product and its sum, AVX2 has both in one.
  Bench twice = bench_of({"interpreter", "sse2"});
  const Kernel rounds_twice = compile(twice.device, f.fragment());
  const std::vector<std::byte> before = run(twice, rounds_twice);
  Bench once = bench_of({"interpreter", "avx2"});
  const Kernel rounds_once = compile(once.device, f.fragment());
  CHECK(run(once, rounds_once) != before);
  CHECK(run(twice, rounds_twice) == before);
  Bench again = bench_of({"interpreter", "sse2"});
  CHECK(run(once, rounds_once) != before);
  CHECK(run(again, compile(again.device, f.fragment())) == before);
}

TEST_CASE("norms: generated code and loops of one instruction set give the same bits") {
  const std::vector<Strategy> ways = strategies();
  size_t compared = 0;
  for (size_t i = 0; i + 1 < ways.size(); ++i) {
    if (ways[i].isa != ways[i + 1].isa) continue;
    CAPTURE(ways[i].isa);
    Random random(tenon::test::seed());
    std::vector<Nodes> all;
    for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16}) {
      for (const Dims& dims : images) {
        all.push_back(forward(random, dtype, dims, Lies::pixels, random() % 2 == 0, TN_OP_relu));
        all.push_back(backward(random, dtype, dims, Lies::pixels, random() % 2 == 0, random() % 2 == 0));
      }
      for (const Dims& dims : {Dims{7, 33}, Dims{3, 1024}, Dims{2, 2500}, Dims{30, 1}}) {
        for (const uint32_t op : {TN_OP_layer_norm, TN_OP_rms_norm})
          all.push_back(residual_norm(random, dtype, dims, op, false));
        all.push_back(row_gradient(random, dtype, dims));
        for (const uint32_t op : {TN_OP_softmax, TN_OP_log_softmax, TN_OP_softmax_grad})
          all.push_back(shares(random, dtype, dims, op));
      }
    }
    std::vector<std::vector<Tensor>> by_way[2];
    for (size_t way = 0; way < 2; ++way) {
      Bench bench = bench_of(ways[i + way]);
      for (const Nodes& g : all) by_way[way].push_back(g.run_fused(bench));
    }
    for (size_t k = 0; k < all.size(); ++k) {
      const Tensor& first = all[k].values[0];
      CAPTURE(label(all[k].nodes.back().op, first.dtype, first.dims));
      for (const size_t v : all[k].wanted) CHECK(by_way[0][k][v].bytes == by_way[1][k][v].bytes);
      ++compared;
    }
  }
  if (compared == 0) TENON_SKIP("jit", "no instruction set has both");
}

TEST_CASE("norms: the number of threads changes no bit") {
  Random random(tenon::test::seed());
  std::vector<Nodes> all;
  for (const Lies lies : {Lies::planes, Lies::pixels}) {
    all.push_back(forward(random, TN_DTYPE_f32, {6, 20, 60, 61}, lies, true, TN_OP_relu));
    all.push_back(backward(random, TN_DTYPE_bf16, {4, 3, 200, 201}, lies, true, true));
  }
  all.push_back(residual_norm(random, TN_DTYPE_f32, {600, 300}, TN_OP_layer_norm, true));
  all.push_back(row_gradient(random, TN_DTYPE_f32, {600, 300}));
  std::vector<std::vector<Tensor>> first;
  for (const char* threads : {"1", "2", "7"}) {
    setenv("TENON_TEST_THREADS", threads, 1);
    Bench bench;
    std::vector<std::vector<Tensor>> now;
    for (const Nodes& g : all) now.push_back(g.run_fused(bench));
    if (first.empty()) first = now;
    for (size_t i = 0; i < all.size(); ++i) {
      for (const size_t k : all[i].wanted) CHECK(now[i][k].bytes == first[i][k].bytes);
    }
  }
  unsetenv("TENON_TEST_THREADS");
}

TEST_CASE(
    "batch norm: large images on many threads equal themselves in another order of memory, within a "
    "rounding") {
  Random random(tenon::test::seed());
  Bench bench;
  const Dims dims = {6, 48, 60, 61};
  Nodes planes = forward(random, TN_DTYPE_f32, dims, Lies::planes, false, TN_OP_relu);
  Nodes pixels = planes;
  for (Tensor& tensor : pixels.values) {
    if (tensor.dims != dims) continue;
    Tensor turned(tensor.dtype, dims, strides_of(Lies::pixels, dims));
    for_each(dims, [&](const Dims& at) { turned.set(at, tensor.at(at)); });
    tensor = turned;
  }
  const std::vector<Tensor> a = planes.run_fused(bench), b = pixels.run_fused(bench);
  for (const size_t i : planes.wanted) {
    Number worst = 0;
    for_each(a[i].dims,
             [&](const Dims& at) { worst = std::max(worst, std::fabs(a[i].at(at) - b[i].at(at))); });
    CHECK(worst < 1e-4L);
  }
}

TEST_CASE("batch norm: outputs that nobody wants are left out") {
  Random random(tenon::test::seed());
  Bench bench;
  Nodes g = forward(random, TN_DTYPE_f32, {3, 4, 5, 6}, Lies::planes, false, TN_OP_relu);
  const std::vector<Tensor> whole = g.run_fused(bench);
  const size_t mean = g.nodes[0].out[1];
  for (size_t i = 2; i < 5; ++i) g.nodes[0].out[i] = Nodes::absent;
  const size_t z = g.nodes.back().out[0];
  g.wanted = {mean, z};
  const std::vector<Tensor> got = g.run_fused(bench);
  CHECK(got[mean].bytes == whole[mean].bytes);
  CHECK(got[z].bytes == whole[z].bytes);
  g.nodes[0].out[0] = Nodes::absent;
  g.nodes.pop_back();
  g.wanted = {mean};
  CHECK(g.run_fused(bench)[mean].bytes == whole[mean].bytes);
}

TEST_CASE("batch norm: images without elements give statistics and nothing else") {
  Random random(tenon::test::seed());
  Bench bench;
  Nodes g = forward(random, TN_DTYPE_f32, {0, 3, 4, 4}, Lies::planes, false, TN_OP_relu);
  const std::vector<Tensor> got = g.run_fused(bench);
  for (int64_t c = 0; c < 3; ++c) CHECK(got[g.nodes[0].out[1]].at({c}) == 0);
}

TEST_CASE(
    "batch norm: the variance of one value a channel is 0, and running statistics take it as any other") {
  Random random(tenon::test::seed());
  for (const Strategy& strategy : engines()) {
    CAPTURE(strategy.name());
    Bench bench = bench_of(strategy);
    for (const uint32_t dtype : float_dtypes) {
      for (const int64_t channels : {1, 3, 70}) {
        Nodes g = forward(random, dtype, {1, channels, 1, 1}, Lies::planes, true, TN_OP_relu);
        const std::vector<Tensor> got = g.run_fused(bench);
        const NodeOf& norm = g.nodes.front();
        for (int64_t c = 0; c < channels; ++c) {
          CHECK(got[norm.out[1]].at({c}) == got[norm.in[0]].at({0, c, 0, 0}));
          const Number before = got[norm.in[4]].at({c}), now = got[norm.out[4]].at({c});
          CHECK(std::fabs(now - Number(0.9) * before) <= Number(1e-6) * before);
        }
        check_same(bench, g);
      }
    }
  }
}

TEST_CASE(
    "batch norm: running statistics are carried on where they lie, also where a node before reads them") {
  Bench bench;
  Random random(tenon::test::seed());
  const Dims dims = {4, 8, 6, 8}, channels = {8};  // a row of pixels is as long as there are channels
  const NormInputs given(TN_DTYPE_f32, dims, random);
  for (const bool before : {false, true}) {
    FragmentBuilder f("carried on");
    std::vector<uint32_t> into = given.in(f);
    const uint32_t mean = f.output(TN_DTYPE_f32, channels), variance = f.output(TN_DTYPE_f32, channels);
    if (before) {
      const uint32_t moved = f.tensor(TN_DTYPE_f32, dims);
      f.node(TN_OP_add, {into[0], into[3]}, {moved});
      into[0] = moved;
    }
    const uint32_t y = f.tensor(TN_DTYPE_f32, dims), saved = f.tensor(TN_DTYPE_f32, channels),
                   inverse = f.tensor(TN_DTYPE_f32, channels);
    f.node(TN_OP_batch_norm_train, into, {y, saved, inverse, mean, variance})
        .real("epsilon", 1e-5)
        .real("momentum", 0.75);
    std::vector<size_t> places{3, 4};
    if (!before) {
      places.push_back(0);
      f.node(TN_OP_relu, {y}, {f.output(TN_DTYPE_f32, dims)});
    }
    for (uint32_t i = 0; i < places.size(); ++i) f.alias(static_cast<uint32_t>(places[i]), i);
    CHECK(supports(bench.device, f.fragment()).alias_mask == (uint64_t{1} << places.size()) - 1);
    const Kernel kernel = compile(bench.device, f.fragment());
    std::vector<Tensor> apart;
    std::vector<Tensor*> out;
    for (const size_t i : places) apart.push_back(*given.all()[i]);
    for (Tensor& one : apart) out.push_back(&one);
    bench.run(kernel, given.all(), out);
    const auto got = bench.run_in_place(kernel, given.all(), places);
    for (size_t i = 0; i < places.size(); ++i) {
      CHECK(got[i] == apart[i].bytes);
      CHECK(got[i] != given.all()[places[i]]->bytes);
    }
  }
}

TEST_CASE("batch norm: inference with its activation runs in place") {
  Bench bench;
  Random random(tenon::test::seed());
  const NormInputs given(TN_DTYPE_bf16, {2, 70, 8, 8}, random);
  for (const bool in_place : {false, true}) {
    FragmentBuilder f("in place");
    const std::vector<uint32_t> operands = given.in(f);
    const uint32_t y = f.tensor(TN_DTYPE_bf16, given.x.dims), z = f.output(TN_DTYPE_bf16, given.x.dims);
    f.node(TN_OP_batch_norm_infer, operands, {y}).real("epsilon", 1e-5);
    f.node(TN_OP_relu, {y}, {z});
    if (in_place) f.alias(0, 0);
    CHECK(supports(bench.device, f.fragment()).alias_mask == (in_place ? 1 : 0));
    if (!in_place) continue;
    const Kernel kernel = compile(bench.device, f.fragment());
    Tensor apart = given.x;
    bench.run(kernel, given.all(), {&apart});
    CHECK(bench.run_in_place(kernel, given.all(), {0})[0] == apart.bytes);
  }
}

TEST_CASE("norms: what is written over an operand of a node that joined is what is written beside it") {
  Random random(tenon::test::seed());
  on_every_image([&](Bench& bench, uint32_t dtype, const Dims& dims, Lies lies) {
    WayBack back(random, dtype, dims, lies);
    back.join(random).read_y(random).finish();
    if (random() % 2 == 0) back.g.wanted.push_back(back.dz);
    check_in_place(bench, back.g, back.dy, back.dx);
    check_in_place(bench, back.g, back.y, back.dx);
  });
  for (const Strategy& strategy : engines()) {
    CAPTURE(strategy.name());
    Bench bench = bench_of(strategy);
    for (const uint32_t dtype : float_dtypes) {
      const Nodes rows = residual_norm(random, dtype, {37, 130}, TN_OP_layer_norm, random() % 2 == 0);
      check_in_place(bench, rows, rows.inputs[0], rows.nodes.back().out[0]);
    }
  }
}
