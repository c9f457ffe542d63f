// SPDX-License-Identifier: Apache-2.0
// engines_test.cpp: generated code against the interpreter: the same bits, whatever the program, the lengths and the strides.
//
// Invariant: both engines see the same inputs; only which NaN a NaN is may differ.
#include "strategies.hpp"

using namespace cpu_test;

namespace {

// A node on earlier values.
struct Step {
  uint32_t op, dtype;
  std::vector<size_t> operands;
  bool tanh = false;
};

// Inputs come first; every node has the whole shape.
struct Graph {
  Dims dims;
  std::vector<Tensor> inputs;
  std::vector<uint32_t> dtypes;  // of all values
  std::vector<Step> steps;
  std::vector<bool> wanted;  // by step
  bool in_place = false;     // the last result takes the place of the first input
};

uint32_t pick(Random& random, const std::vector<uint32_t>& list) { return list[random() % list.size()]; }

const std::vector<uint32_t> unary = {TN_OP_neg,   TN_OP_abs,    TN_OP_exp,        TN_OP_log,     TN_OP_sqrt,
                                     TN_OP_rsqrt, TN_OP_square, TN_OP_reciprocal, TN_OP_sigmoid, TN_OP_tanh,
                                     TN_OP_relu,  TN_OP_gelu,   TN_OP_silu,       TN_OP_floor,   TN_OP_sign,
                                     TN_OP_erf,   TN_OP_scale,  TN_OP_identity};
const std::vector<uint32_t> binary = {TN_OP_add,       TN_OP_sub,       TN_OP_mul,          TN_OP_div,
                                      TN_OP_max,       TN_OP_min,       TN_OP_pow,          TN_OP_relu_grad,
                                      TN_OP_gelu_grad, TN_OP_silu_grad, TN_OP_sigmoid_grad, TN_OP_tanh_grad};
const std::vector<uint32_t> compares = {TN_OP_equal,      TN_OP_not_equal, TN_OP_less,
                                        TN_OP_less_equal, TN_OP_greater,   TN_OP_greater_equal};
const std::vector<uint32_t> of_integers = {TN_OP_add, TN_OP_sub, TN_OP_mul, TN_OP_max, TN_OP_min};
const std::vector<uint32_t> float_types = {TN_DTYPE_f32, TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16,
                                           TN_DTYPE_f64};

class Generator {
 public:
  Generator(Random& random, Dims dims, bool integers) : random_(random), integers_(integers) {
    graph_.dims = std::move(dims);
  }

  Graph graph() {
    input(pick(random_, integers_ ? all_dtypes : float_types), true);
    const size_t inputs = 1 + random_() % 4;
    for (size_t i = 1; i < inputs; ++i) input(pick(random_, integers_ ? all_dtypes : float_types), false);
    const size_t steps = 1 + random_() % 8;
    while (graph_.steps.size() < steps) step();
    for (size_t i = 0; i < graph_.steps.size(); ++i) graph_.wanted.push_back(random_() % 4 == 0);
    graph_.wanted.back() = true;
    graph_.in_place =
        graph_.dtypes.back() == graph_.dtypes[0] && dense(graph_.inputs[0]) && random_() % 2 == 0;
    return std::move(graph_);
  }

 private:
  static bool dense(const Tensor& tensor) {
    return tensor.strides == Tensor(tensor.dtype, tensor.dims).strides;
  }

  void input(uint32_t dtype, bool whole) {
    Dims dims = graph_.dims, strides;
    const uint64_t form = whole ? random_() % 2 : random_() % 5;
    if (form == 1 && !dims.empty()) {  // with gaps, and the dims the other way round
      strides.assign(dims.size(), 0);
      int64_t step = 1 + static_cast<int64_t>(random_() % 3);
      for (size_t i = 0; i < dims.size(); ++i) {
        strides[i] = step;
        step *= std::max<int64_t>(dims[i], 1);
      }
    }
    if (form == 2 && !dims.empty()) dims.erase(dims.begin());
    if (form == 3 && !dims.empty()) dims.back() = 1;
    if (form == 4) dims.clear();
    Tensor& made = graph_.inputs.emplace_back(dtype, dims, strides);
    randomize(made, random_);
    graph_.dtypes.push_back(dtype);
    full_.push_back(dims == graph_.dims);
  }

  // A value of the dtype, or none.
  size_t value_of(uint32_t dtype) {
    std::vector<size_t> found;
    for (size_t i = 0; i < graph_.dtypes.size(); ++i) {
      if (graph_.dtypes[i] == dtype) found.push_back(i);
    }
    return found.empty() ? SIZE_MAX : found[random_() % found.size()];
  }
  size_t whole_value() {
    std::vector<size_t> found;
    for (size_t i = 0; i < full_.size(); ++i) {
      if (full_[i]) found.push_back(i);
    }
    return found[random_() % 2 == 0 ? found.size() - 1 : random_() % found.size()];
  }

  void add(uint32_t op, uint32_t dtype, std::vector<size_t> operands) {
    graph_.steps.push_back({op, dtype, std::move(operands), random_() % 2 == 0});
    graph_.dtypes.push_back(dtype);
    full_.push_back(true);
  }

  void step() {
    const size_t a = whole_value();
    const uint32_t dtype = graph_.dtypes[a];
    const uint64_t kind = random_() % 8;
    if (kind == 0) return add(TN_OP_cast, pick(random_, integers_ ? all_dtypes : float_types), {a});
    if (dtype == TN_DTYPE_bool) return of_bool(a, kind);
    if (!is_float(dtype) && kind < 6) return add(TN_OP_cast, pick(random_, float_types), {a});
    if (kind == 1) return add(TN_OP_is_finite, TN_DTYPE_bool, {a});
    if (kind == 2) return add(pick(random_, compares), TN_DTYPE_bool, {a, value_of(dtype)});
    if (!is_float(dtype)) return add(pick(random_, of_integers), dtype, {a, value_of(dtype)});
    if (kind == 3)
      return add(random_() % 2 == 0 ? TN_OP_clip : TN_OP_fma, dtype, {a, value_of(dtype), value_of(dtype)});
    if (kind < 6) return add(pick(random_, unary), dtype, {a});
    add(pick(random_, binary), dtype, {a, value_of(dtype)});
  }
  void of_bool(size_t a, uint64_t kind) {
    const uint32_t dtype = graph_.dtypes[random_() % graph_.dtypes.size()];
    if (kind < 5) return add(TN_OP_where, dtype, {a, value_of(dtype), value_of(dtype)});
    if (kind == 5) return add(TN_OP_logical_not, TN_DTYPE_bool, {a});
    add(kind == 6 ? TN_OP_logical_and : TN_OP_logical_or, TN_DTYPE_bool, {a, value_of(TN_DTYPE_bool)});
  }

  Random& random_;
  bool integers_;
  Graph graph_;
  std::vector<bool> full_;
};

std::string words(const Graph& g) {
  std::string out = "[";
  for (const int64_t dim : g.dims) out += std::to_string(dim) + ",";
  out += "]";
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    out += " v" + std::to_string(i) + ":" + std::string(tenon::author::dtype_name(g.dtypes[i]));
    for (const int64_t stride : g.inputs[i].strides) out += "/" + std::to_string(stride);
  }
  for (size_t i = 0; i < g.steps.size(); ++i) {
    const Step& step = g.steps[i];
    out += " v" + std::to_string(g.inputs.size() + i) + "=" + std::string(tenon::author::op_name(step.op)) +
           (step.tanh ? "'" : "") + "." + std::string(tenon::author::dtype_name(step.dtype)) + "(";
    for (const size_t operand : step.operands) out += " v" + std::to_string(operand);
    out += " )";
  }
  return out + (g.in_place ? " in place" : "");
}

struct Ran {
  std::vector<Tensor> results;
  std::string engine;
};

void describe(const Graph& g, FragmentBuilder& f) {
  std::vector<uint32_t> index;
  for (const Tensor& input : g.inputs) index.push_back(f.input(input.dtype, input.dims, input.strides));
  uint32_t outputs = 0;
  for (size_t i = 0; i < g.steps.size(); ++i) {
    const Step& step = g.steps[i];
    std::vector<uint32_t> operands;
    for (const size_t operand : step.operands) operands.push_back(index[operand]);
    outputs += g.wanted[i] ? 1 : 0;
    index.push_back(g.wanted[i] ? f.output(step.dtype, g.dims) : f.tensor(step.dtype, g.dims));
    auto& node = f.node(step.op, operands, {index.back()});
    if (step.op == TN_OP_gelu || step.op == TN_OP_gelu_grad) node.integer("tanh", step.tanh);
    if (step.op == TN_OP_scale) node.real("scale", 1.7).real("bias", -0.3);
    if (step.op == TN_OP_cast) node.dtype("dtype", step.dtype);
  }
  if (g.in_place) f.alias(0, outputs - 1);
}

Ran run(Bench& bench, const Graph& g) {
  FragmentBuilder f("graph");
  describe(g, f);
  const Kernel kernel = compile(bench.device, f.fragment());
  Ran out{{}, engine_of(kernel)};
  std::vector<Memory> memories;
  std::vector<tn_span> bindings;
  for (const Tensor& input : g.inputs) {
    memories.push_back(allocate(bench.device, std::max<uint64_t>(input.bytes.size(), 1)));
    bindings.push_back(span(memories.back(), 0, input.bytes.size()));
    copy(bench.stream, bindings.back(), host_span(input.bytes.data(), input.bytes.size()));
  }
  for (size_t i = 0; i < g.steps.size(); ++i) {
    if (!g.wanted[i]) continue;
    const Tensor& made = out.results.emplace_back(g.steps[i].dtype, g.dims);
    const bool shared = g.in_place && i + 1 == g.steps.size();
    if (!shared) memories.push_back(allocate(bench.device, std::max<uint64_t>(made.bytes.size(), 1)));
    bindings.push_back(shared ? bindings[0] : span(memories.back(), 0, made.bytes.size()));
  }
  launch(kernel, bench.stream, bindings);
  for (size_t i = 0; i < out.results.size(); ++i) {
    Tensor& made = out.results[i];
    copy(bench.stream, host_span(made.bytes.data(), made.bytes.size()), bindings[g.inputs.size() + i]);
  }
  drain(bench.stream);
  return out;
}

// Byte for byte, but for which NaN.
bool same_bits(const Tensor& a, const Tensor& b) {
  const uint32_t bytes = bytes_of(a.dtype);
  for (size_t at = 0; at < a.bytes.size(); at += bytes) {
    if (std::memcmp(&a.bytes[at], &b.bytes[at], bytes) == 0) continue;
    if (!is_float(a.dtype) || !std::isnan(get(&a.bytes[at], a.dtype)) ||
        !std::isnan(get(&b.bytes[at], b.dtype)))
      return false;
  }
  return true;
}

Dims random_dims(Random& random) {
  const auto up_to = [&](uint64_t most) { return static_cast<int64_t>(random() % (most + 1)); };
  switch (random() % 6) {
    case 0:
      return {};
    case 1:
      return {up_to(200)};
    case 2:
      return {up_to(20), up_to(40)};
    case 3:
      return {1 + up_to(4), 1 + up_to(4), 1 + up_to(70)};
    case 4:
      return {3000 + up_to(20000)};
    default:
      return {1 + up_to(40), 1 + up_to(700)};
  }
}

void check_programs(const std::string& isa, bool integers, uint64_t rounds) {
  if (engine_of_add({"jit", isa}) != "jit:" + isa)
    TENON_SKIP("jit", isa + ": " + engine_of_add({"jit", isa}));
  Random random(tenon::test::seed());
  uint64_t generated = 0;
  for (uint64_t round = 0; round < rounds; ++round) {
    const Graph g = Generator(random, random_dims(random), integers).graph();
    Bench interpreter = bench_of({"interpreter", isa});
    const Ran expected = run(interpreter, g);
    Bench jit = bench_of({"jit", isa});
    const Ran got = run(jit, g);
    REQUIRE(expected.engine.find("jit:") == std::string::npos);
    generated += got.engine.find("jit:") == 0 ? 1 : 0;
    for (size_t i = 0; i < got.results.size(); ++i) {
      if (!same_bits(got.results[i], expected.results[i]))
        FAIL_CHECK("result " << i << " of " << got.engine << " differs: " << words(g));
    }
  }
  std::printf("%s: %llu of %llu programs generated\n", isa.c_str(),
              static_cast<unsigned long long>(generated), static_cast<unsigned long long>(rounds));
  CHECK(generated * 4 > rounds);
}

uint64_t rounds() { return tenon::test::full_numbers_or<uint64_t>("programs", 300, 5000); }

}  // namespace

TEST_CASE("engines: every way that this machine has to run elementwise passes is known") {
  CHECK(!strategies().empty());
}

TEST_CASE("engines: AVX2 code gives the interpreter's bits for random programs of floats") {
  check_programs("avx2", false, rounds());
}
TEST_CASE("engines: AVX-512 code gives the interpreter's bits for random programs of floats") {
  check_programs("avx512", false, rounds());
}
TEST_CASE("engines: code and interpreter agree on random programs of every dtype") {
  Random random(tenon::test::seed());
  const uint64_t all = rounds();
  for (uint64_t round = 0; round < all; ++round) {
    const Graph g = Generator(random, random_dims(random), true).graph();
    Bench interpreter = bench_of({"interpreter", instruction_sets.back()});
    const Ran expected = run(interpreter, g);
    Bench automatic = bench_of({"auto", instruction_sets.back()});
    const Ran got = run(automatic, g);
    for (size_t i = 0; i < got.results.size(); ++i) {
      if (!same_bits(got.results[i], expected.results[i]))
        FAIL_CHECK("result " << i << " of " << got.engine << " differs: " << words(g));
    }
  }
}
