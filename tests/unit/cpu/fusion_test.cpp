// SPDX-License-Identifier: Apache-2.0
// fusion_test.cpp: a group of elementwise nodes in one pass gives, bit for bit, what its nodes give one by one.
//
// Invariant: the decomposed run uses the same plugin on fragments of one node, with every value in memory between them.
#include "tensors.hpp"

using namespace cpu_test;

namespace {

struct Step {
  uint32_t op;
  std::vector<size_t> operands;  // of values
};

// A random group: `inputs` values to start from, then one per step. Every value has its own dims.
struct Graph {
  uint32_t dtype;
  std::vector<Dims> dims;
  size_t inputs;
  std::vector<Step> steps;
};

Dims broadcast(const std::vector<Dims>& all) {
  Dims out;
  for (const Dims& dims : all) {
    out.insert(out.begin(), dims.size() > out.size() ? dims.size() - out.size() : 0, 1);
    for (size_t i = 0; i < dims.size(); ++i) {
      int64_t& dim = out[out.size() - dims.size() + i];
      dim = std::max(dim, dims[i]);
    }
  }
  return out;
}

Graph random_graph(uint32_t dtype, Random& random) {
  static const std::vector<Dims> shapes = {{13, 70}, {70}, {13, 1}, {1, 70}, {}};
  const std::vector<uint32_t> one =
      is_float(dtype)
          ? std::vector<uint32_t>{TN_OP_neg, TN_OP_abs, TN_OP_square, TN_OP_relu, TN_OP_sigmoid, TN_OP_exp}
          : std::vector<uint32_t>{TN_OP_neg, TN_OP_abs, TN_OP_square, TN_OP_relu, TN_OP_sign};
  const std::vector<uint32_t> two = {TN_OP_add, TN_OP_sub, TN_OP_mul, TN_OP_max, TN_OP_min};
  Graph g{dtype, {}, 2 + random() % 3, {}};
  for (size_t i = 0; i < g.inputs; ++i) g.dims.push_back(shapes[random() % shapes.size()]);
  g.dims[0] = shapes[0];
  for (size_t i = 0, count = 2 + random() % 10; i < count; ++i) {
    const size_t a = random() % g.dims.size(), b = random() % g.dims.size();
    if (random() % 3 == 0) {
      g.steps.push_back({one[random() % one.size()], {a}});
      g.dims.push_back(g.dims[a]);
    } else {
      g.steps.push_back({two[random() % two.size()], {a, b}});
      g.dims.push_back(broadcast({g.dims[a], g.dims[b]}));
    }
  }
  return g;
}

std::vector<Tensor> run_apart(Bench& bench, const Graph& g, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values = inputs;
  for (size_t i = 0; i < g.steps.size(); ++i) {
    FragmentBuilder f;
    std::vector<uint32_t> in;
    std::vector<const Tensor*> operands;
    for (const size_t operand : g.steps[i].operands) {
      in.push_back(f.input(g.dtype, g.dims[operand]));
      operands.push_back(&values[operand]);
    }
    Tensor result(g.dtype, g.dims[g.inputs + i]);
    f.node(g.steps[i].op, in, {f.output(g.dtype, result.dims)});
    bench.run(compile(bench.device, f.fragment()), operands, {&result});
    values.push_back(std::move(result));
  }
  return values;
}

// Asks for the values marked in `wanted`; the last one always is.
std::vector<Tensor> run_fused(Bench& bench, const Graph& g, const std::vector<Tensor>& inputs,
                              const std::vector<bool>& wanted) {
  FragmentBuilder f("group");
  std::vector<uint32_t> index;
  std::vector<const Tensor*> in;
  std::vector<Tensor> results;
  for (const Tensor& tensor : inputs) {
    index.push_back(f.input(g.dtype, tensor.dims));
    in.push_back(&tensor);
  }
  for (size_t i = 0; i < g.steps.size(); ++i) {
    const Dims& dims = g.dims[g.inputs + i];
    std::vector<uint32_t> operands;
    for (const size_t operand : g.steps[i].operands) operands.push_back(index[operand]);
    index.push_back(wanted[i] ? f.output(g.dtype, dims) : f.tensor(g.dtype, dims));
    if (wanted[i]) results.emplace_back(g.dtype, dims);
    f.node(g.steps[i].op, operands, {index.back()});
  }
  std::vector<Tensor*> out;
  for (Tensor& tensor : results) out.push_back(&tensor);
  const Kernel kernel = compile(bench.device, f.fragment());
  const std::string engine = info(kernel).engine;
  REQUIRE((engine.starts_with("tiles:") || engine.starts_with("jit:")));
  REQUIRE(engine.find('+') == std::string::npos);  // one pass
  bench.run(kernel, in, out);
  return results;
}

}  // namespace

TEST_CASE("fusion: add3 in one pass equals two adds, bit for bit") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const uint32_t dtype : all_dtypes) {
    if (dtype == TN_DTYPE_bool) continue;
    const Dims dims = {100'003};
    const Graph g{dtype, {dims, dims, dims, dims, dims}, 3, {{TN_OP_add, {0, 1}}, {TN_OP_add, {3, 2}}}};
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < 3; ++i) {
      inputs.emplace_back(dtype, dims);
      randomize(inputs.back(), random);
    }
    const std::vector<Tensor> apart = run_apart(bench, g, inputs),
                              fused = run_fused(bench, g, inputs, {false, true});
    CHECK(fused[0].bytes == apart[4].bytes);
  }
}

TEST_CASE("fusion: random groups with broadcast and several outputs equal their parts, bit for bit") {
  const auto rounds = tenon::test::full_numbers_or<uint64_t>("groups for each dtype", 20, 500);
  Random random(tenon::test::seed());
  Bench bench;
  for (const uint32_t dtype :
       {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16, TN_DTYPE_f64, TN_DTYPE_i8, TN_DTYPE_i32, TN_DTYPE_u64}) {
    for (uint64_t round = 0; round < rounds; ++round) {
      const Graph g = random_graph(dtype, random);
      std::vector<Tensor> inputs;
      for (size_t i = 0; i < g.inputs; ++i) {
        inputs.emplace_back(dtype, g.dims[i]);
        randomize(inputs.back(), random, false);
      }
      std::vector<bool> wanted(g.steps.size());
      for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = random() % 4 == 0;
      wanted.back() = true;
      const std::vector<Tensor> apart = run_apart(bench, g, inputs),
                                fused = run_fused(bench, g, inputs, wanted);
      size_t k = 0;
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i]) CHECK(fused[k++].bytes == apart[g.inputs + i].bytes);
      }
    }
  }
}

TEST_CASE("fusion: an honoured alias runs in place") {
  Bench bench;
  Random random(tenon::test::seed());
  const Dims dims = {50'000};
  FragmentBuilder f("in place");
  const uint32_t a = f.input(TN_DTYPE_f32, dims), b = f.input(TN_DTYPE_f32, dims);
  const uint32_t sum = f.output(TN_DTYPE_f32, dims), both = f.output(TN_DTYPE_f32, dims);
  f.node(TN_OP_add, {a, b}, {sum});
  f.node(TN_OP_mul, {sum, a}, {both});
  f.alias(0, 0);
  CHECK(supports(bench.device, f.fragment()).alias_mask == 1);
  const Kernel kernel = compile(bench.device, f.fragment());
  Tensor x(TN_DTYPE_f32, dims), y(TN_DTYPE_f32, dims), apart_sum(TN_DTYPE_f32, dims),
      apart_both(TN_DTYPE_f32, dims);
  randomize(x, random, false);
  randomize(y, random, false);
  bench.run(kernel, {&x, &y}, {&apart_sum, &apart_both});
  const uint64_t bytes = x.bytes.size();
  const Memory memory = allocate(bench.device, 3 * bytes);
  copy(bench.stream, span(memory, 0, bytes), host_span(x.bytes.data(), bytes));
  copy(bench.stream, span(memory, bytes, bytes), host_span(y.bytes.data(), bytes));
  const tn_span bindings[] = {span(memory, 0, bytes), span(memory, bytes, bytes), span(memory, 0, bytes),
                              span(memory, 2 * bytes, bytes)};
  launch(kernel, bench.stream, bindings);
  drain(bench.stream);
  CHECK(std::memcmp(address(memory), apart_sum.bytes.data(), bytes) == 0);
  CHECK(std::memcmp(address(memory) + 2 * bytes, apart_both.bytes.data(), bytes) == 0);
}

TEST_CASE("fusion: an alias between different places is not honoured") {
  Bench bench;
  FragmentBuilder f;
  const uint32_t a = f.input(TN_DTYPE_f32, {4, 4}, {1, 4}), c = f.output(TN_DTYPE_f32, {4, 4});
  f.node(TN_OP_neg, {a}, {c});
  f.alias(0, 0);
  CHECK(supports(bench.device, f.fragment()).alias_mask == 0);
}

TEST_CASE("fusion: a group with a reduction runs step by step, and says so") {
  Bench bench;
  Random random(tenon::test::seed());
  FragmentBuilder f("centred");
  const uint32_t x = f.input(TN_DTYPE_f32, {40, 30}), mean = f.tensor(TN_DTYPE_f32, {40, 1}),
                 y = f.output(TN_DTYPE_f32, {40, 30});
  f.node(TN_OP_mean, {x}, {mean}).integers("axes", {1}).integer("keepdims", 1);
  f.node(TN_OP_sub, {x, mean}, {y});
  const tn_support support = supports(bench.device, f.fragment());
  CHECK(support.verdict == TN_SUPPORT_EMULATED);
  CHECK(std::string(support.reason).find("2 steps") != std::string::npos);
  Tensor in(TN_DTYPE_f32, {40, 30}), out(TN_DTYPE_f32, {40, 30});
  randomize(in, random, false);
  const Kernel kernel = compile(bench.device, f.fragment());
  CHECK(info(kernel).workspace_bytes > 0);
  bench.run(kernel, {&in}, {&out});
  for (int64_t i = 0; i < 40; ++i) {
    Number sum = 0;
    for (int64_t j = 0; j < 30; ++j) sum += in.at({i, j});
    const Number average = rounded(sum / 30, TN_DTYPE_f32);
    for (int64_t j = 0; j < 30; ++j)
      CHECK(close(out.at({i, j}), in.at({i, j}) - average, TN_DTYPE_f32, 1, 1e-6L));
  }
}

TEST_CASE("supports: an op that is not computed is refused with its name") {
  Bench bench;
  FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_f32, {2, 3}), y = f.output(TN_DTYPE_f32, {2, 3});
  f.node(TN_OP_convert_layout, {x}, {y}).string("layout", "NZ");
  const tn_support support = supports(bench.device, f.fragment());
  CHECK(support.verdict == TN_SUPPORT_NO);
  CHECK(std::string(support.reason).find("convert_layout") != std::string::npos);
}

TEST_CASE("kernel: destroyed while in flight, a launch still finishes") {
  Bench bench;
  const Stream gate = make_stream(bench.device);
  const uint64_t key = promise(gate);
  const Memory memory = allocate(bench.device, 3 * 4096);
  fill(bench.stream, span(memory, 0, 2 * 4096), 0x3F800000, 4);
  wait(bench.stream, gate, key);
  {
    FragmentBuilder f;
    const uint32_t a = f.input(TN_DTYPE_f32, {1024}), b = f.input(TN_DTYPE_f32, {1024}),
                   c = f.output(TN_DTYPE_f32, {1024});
    f.node(TN_OP_add, {a, b}, {c});
    const Kernel kernel = compile(bench.device, f.fragment());
    const tn_span bindings[] = {span(memory, 0, 4096), span(memory, 4096, 4096), span(memory, 8192, 4096)};
    launch(kernel, bench.stream, bindings);
  }
  REQUIRE(signal(gate, key).ok());
  drain(bench.stream);
  CHECK(raw<float>(address(memory) + 8192 + 4092) == 2.0f);
}
