// SPDX-License-Identifier: Apache-2.0
// elementwise_test.cpp: every elementwise op on every dtype it takes, against exact arithmetic.
//
// Invariant: the reference computes in long double or modulo 2^64, and knows nothing of the plugin's formulas.
#include "tensors.hpp"

using namespace cpu_test;

namespace {

struct Row {
  uint32_t op;
  std::string_view family, dtypes, tolerance;
  uint32_t inputs;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
#define TN_OP(number, name, version, least, most, outputs, family, dtypes, shape, tolerance, attributes, \
              doc)                                                                                       \
  {number, #family, #dtypes, #tolerance, least},
#include <tenon/ops.def>
  };
  return all;
}

Number logistic(Number x) { return 1 / (1 + std::exp(-x)); }
Number phi(Number x) { return 0.5L * std::erfc(-x / std::sqrt(2.0L)); }
Number density(Number x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0L)); }
Number tanh_inner(Number x) { return std::sqrt(2 / std::acos(-1.0L)) * (x + 0.044715L * x * x * x); }
Number tanh_slope(Number x) { return std::sqrt(2 / std::acos(-1.0L)) * (1 + 3 * 0.044715L * x * x); }

constexpr double scale_by_attribute = 1.7, scale_bias_attribute = -0.3;

Number float_reference(uint32_t op, bool tanh, Number a, Number b, Number c) {
  switch (op) {
    case TN_OP_neg:
      return -a;
    case TN_OP_abs:
      return std::fabs(a);
    case TN_OP_exp:
      return std::exp(a);
    case TN_OP_log:
      return std::log(a);
    case TN_OP_sqrt:
      return std::sqrt(a);
    case TN_OP_rsqrt:
      return 1 / std::sqrt(a);
    case TN_OP_square:
      return a * a;
    case TN_OP_reciprocal:
      return 1 / a;
    case TN_OP_sigmoid:
      return logistic(a);
    case TN_OP_tanh:
      return std::tanh(a);
    case TN_OP_relu:
      return std::isnan(a) ? a : std::max(a, Number(0));
    case TN_OP_gelu:
      return tanh ? a * logistic(2 * tanh_inner(a)) : a * phi(a);
    case TN_OP_silu:
      return a * logistic(a);
    case TN_OP_floor:
      return std::floor(a);
    case TN_OP_sign:
      return std::isnan(a) ? a : (a > 0) - (a < 0);
    case TN_OP_erf:
      return std::erf(a);
    case TN_OP_sin:
      return std::sin(a);
    case TN_OP_cos:
      return std::cos(a);
    case TN_OP_is_finite:
      return std::isfinite(a) ? 1 : 0;
    case TN_OP_scale:
      return a * Number(scale_by_attribute) + Number(scale_bias_attribute);
    case TN_OP_identity:
      return a;
    case TN_OP_add:
      return a + b;
    case TN_OP_sub:
      return a - b;
    case TN_OP_mul:
      return a * b;
    case TN_OP_div:
      return a / b;
    case TN_OP_max:
      return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
    case TN_OP_min:
      return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
    case TN_OP_pow:
      return std::pow(a, b);
    case TN_OP_mod:
      return std::fmod(a, b);
    case TN_OP_relu_grad:
      return b > 0 ? a : 0;
    case TN_OP_gelu_grad: {
      if (!tanh) return a * (phi(b) + b * density(b));
      const Number gate = logistic(2 * tanh_inner(b)), bend = gate * (1 - gate);
      return bend == 0 ? a * gate : a * (gate + 2 * b * bend * tanh_slope(b));  // at ∞ the limit
    }
    case TN_OP_silu_grad:
      return a * logistic(b) * (1 + b * (1 - logistic(b)));
    case TN_OP_sigmoid_grad:
      return a * b * (1 - b);
    case TN_OP_tanh_grad:
      return a * (1 - b * b);
    case TN_OP_clip: {
      const Number low = std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
      return std::isnan(low) || std::isnan(c) ? low + c : std::min(low, c);
    }
    case TN_OP_fma:
      return a * b + c;
    default:
      break;
  }
  return std::numeric_limits<Number>::quiet_NaN();
}

// Integers as the low bits of 2^64 arithmetic; the order of values decides extremes and quotients.
Number integer_reference(uint32_t op, uint32_t dtype, Number a, Number b, Number c) {
  const uint64_t x = integer_bits(a), y = integer_bits(b);
  switch (op) {
    case TN_OP_neg:
      return wrapped(0 - x, dtype);
    case TN_OP_abs:
      return a < 0 ? wrapped(0 - x, dtype) : a;
    case TN_OP_square:
      return wrapped(x * x, dtype);
    case TN_OP_relu:
      return std::max(a, Number(0));
    case TN_OP_sign:
      return (a > 0) - (a < 0);
    case TN_OP_identity:
      return a;
    case TN_OP_is_finite:
      return 1;
    case TN_OP_add:
      return wrapped(x + y, dtype);
    case TN_OP_sub:
      return wrapped(x - y, dtype);
    case TN_OP_mul:
      return wrapped(x * y, dtype);
    // Quotients fit in 64 bits but for the least number by -1, which is 2^63: its low bits are itself.
    case TN_OP_div:
      return b == 0 ? 0
                    : wrapped(std::trunc(a / b) == 0x1p63L ? 1ull << 63 : integer_bits(std::trunc(a / b)),
                              dtype);
    case TN_OP_mod:
      return b == 0 ? 0 : std::fmod(a, b);
    case TN_OP_max:
      return std::max(a, b);
    case TN_OP_min:
      return std::min(a, b);
    case TN_OP_clip:
      return std::min(std::max(a, b), c);
    default:
      break;
  }
  return 0;
}

Number reference(uint32_t op, uint32_t dtype, bool tanh, const std::vector<Number>& x) {
  const Number a = x[0], b = x.size() > 1 ? x[1] : 0, c = x.size() > 2 ? x[2] : 0;
  switch (op) {
    case TN_OP_equal:
      return a == b;
    case TN_OP_not_equal:
      return !(a == b);
    case TN_OP_less:
      return a < b;
    case TN_OP_less_equal:
      return a <= b;
    case TN_OP_greater:
      return a > b;
    case TN_OP_greater_equal:
      return a >= b;
    case TN_OP_logical_not:
      return a == 0;
    case TN_OP_logical_and:
      return a != 0 && b != 0;
    case TN_OP_logical_or:
      return a != 0 || b != 0;
    case TN_OP_where:
      return a != 0 ? b : c;
    default:
      return is_float(dtype) ? float_reference(op, tanh, a, b, c) : integer_reference(op, dtype, a, b, c);
  }
}

// The dtypes of the operands that decide a row's cases.
std::vector<uint32_t> dtypes_of(const Row& row) {
  std::vector<uint32_t> out;
  for (const uint32_t dtype : all_dtypes) {
    const bool takes = row.dtypes == "FLOAT"    ? is_float(dtype)
                       : row.dtypes == "NUMBER" ? dtype != TN_DTYPE_bool
                       : row.dtypes == "LOGIC"  ? dtype == TN_DTYPE_bool
                                                : true;
    if (takes) out.push_back(dtype);
  }
  return out;
}

// Integer quotients of long doubles are exact below 2^63; beyond, the reference itself would round.
bool reference_is_exact(const Row& row, uint32_t dtype) {
  return !((row.op == TN_OP_div || row.op == TN_OP_mod) && (dtype == TN_DTYPE_u64 || dtype == TN_DTYPE_i64));
}

struct Placed {
  Dims out;
  std::vector<Dims> in, strides;  // of inputs 0, 1, 2; empty strides: dense
};
const std::vector<Placed>& placements() {
  static const std::vector<Placed> all = {
      {{1537}, {{1537}, {1537}, {1537}}, {{}, {}, {}}},
      {{}, {{}, {}, {}}, {{}, {}, {}}},
      {{3, 0}, {{3, 0}, {3, 0}, {3, 0}}, {{}, {}, {}}},
      {{4, 5, 7}, {{4, 5, 7}, {4, 5, 7}, {4, 5, 7}}, {{1, 4, 20}, {70, 14, 2}, {}}},
      {{6, 37}, {{6, 37}, {37}, {6, 1}}, {{}, {}, {}}},
      {{5, 3, 4}, {{5, 3, 4}, {1, 1, 1}, {3, 1}}, {{0, 4, 1}, {}, {}}},
      {{2, 1, 3, 1, 2, 2, 1, 3}, {{2, 1, 3, 1, 2, 2, 1, 3}, {2, 1, 3}, {}}, {{}, {}, {}}},
  };
  return all;
}

Number units_of(const Row& row, uint32_t dtype) {
  if (row.tolerance == "EXACT") return 0;
  if (row.tolerance == "ROUND") return is_half(dtype) ? 1 : 0.5001L;
  return is_half(dtype) ? 1 : row.op == TN_OP_gelu ? 6.5L : 4;
}

bool is_gradient(const Row& row) { return row.family == "BINARY" && row.tolerance == "MATH"; }
// A slope of x whose terms cancel.
bool has_root(uint32_t op) { return op == TN_OP_gelu_grad || op == TN_OP_silu_grad; }

// What is granted beyond units of the last place: terms cancel, and in f64, which has no wider type to lean on, a gradient's all
// do, and the left tail of gelu depends on x² in an exponent.
Number slack_of(const Row& row, uint32_t dtype, const std::vector<Number>& x, Number expected) {
  if (dtype != TN_DTYPE_f64) return has_root(row.op) ? 4 * 0x1p-24L * std::fabs(x[0]) : 0;
  const Number epsilon = 0x1p-52L;
  if (row.op == TN_OP_gelu)
    return 2 * epsilon * x[0] * x[0] * std::fabs(expected) + std::fabs(x[0]) * ulp(0, TN_DTYPE_f64);
  return is_gradient(row) ? 4 * epsilon * std::fabs(x[0]) : 0;
}

void check_placed(Bench& bench, const Row& row, uint32_t dtype, bool tanh, const Placed& shape,
                  Random& random) {
  FragmentBuilder f(label(row.op, dtype, shape.out));
  std::vector<Tensor> inputs;
  std::vector<uint32_t> in;
  for (uint32_t i = 0; i < row.inputs; ++i) {
    const uint32_t type = row.dtypes == "SELECT" && i == 0 ? static_cast<uint32_t>(TN_DTYPE_bool) : dtype;
    // Where the output's dims come from a single input it has to have them all.
    Dims dims = shape.in[i], strides = shape.strides[i];
    inputs.emplace_back(type, dims, strides);
    randomize(inputs.back(), random);
    in.push_back(f.input(type, dims, strides));
  }
  const uint32_t result = row.dtypes == "COMPARE" ? static_cast<uint32_t>(TN_DTYPE_bool) : dtype;
  Tensor output(result, shape.out);
  const uint32_t out = f.output(result, shape.out);
  auto& node = f.node(row.op, in, {out});
  if (row.op == TN_OP_gelu || row.op == TN_OP_gelu_grad) node.integer("tanh", tanh);
  if (row.op == TN_OP_scale) node.real("scale", scale_by_attribute).real("bias", scale_bias_attribute);
  const tn_support support = supports(bench.device, f.fragment());
  REQUIRE(support.verdict ==
          (is_half(dtype) && row.op != TN_OP_identity ? TN_SUPPORT_CONVERTED : TN_SUPPORT_NATIVE));
  const Kernel kernel = compile(bench.device, f.fragment());
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : inputs) pointers.push_back(&tensor);
  bench.run(kernel, pointers, {&output});
  for_each(shape.out, [&](const Dims& at) {
    std::vector<Number> x;
    for (const Tensor& tensor : inputs) x.push_back(tensor.at(at));
    const Number expected = reference(row.op, dtype, tanh, x), got = output.at(at);
    const Number slack = slack_of(row, dtype, x, expected);
    // Whether an infinite gradient meets a slope of 0 or of 1e-400 is no question of accuracy.
    if (is_gradient(row) && std::isinf(x[0])) return;
    // ∞ · 0 in a slope is NaN, or the limit.
    if (has_root(row.op) && std::isinf(x[1])) {
      CHECK((std::isnan(got) || got == (x[1] > 0 ? x[0] : 0)));
      return;
    }
    const Number units = row.op == TN_OP_pow && dtype == TN_DTYPE_f64 ? 2 : units_of(row, result);
    if (!close(got, expected, is_float(result) ? result : static_cast<uint32_t>(TN_DTYPE_f64),
               is_float(result) ? units : 0, slack)) {
      FAIL_CHECK(label(row.op, dtype, shape.out)
                 << " of " << double(x[0]) << ", " << double(x.size() > 1 ? x[1] : 0) << ", "
                 << double(x.size() > 2 ? x[2] : 0) << " gives " << double(got) << ", expected "
                 << double(expected));
    }
  });
}

void check_family(std::string_view family) {
  Random random(tenon::test::seed());
  Bench bench;
  size_t checked = 0;
  for (const Row& row : rows()) {
    if (row.family != family || row.dtypes == "CAST") continue;
    for (const uint32_t dtype : dtypes_of(row)) {
      if (!reference_is_exact(row, dtype)) continue;
      for (const Placed& shape : placements()) {
        check_placed(bench, row, dtype, false, shape, random);
        if (row.op == TN_OP_gelu || row.op == TN_OP_gelu_grad)
          check_placed(bench, row, dtype, true, shape, random);
        ++checked;
      }
    }
  }
  CHECK(checked > 0);
}

}  // namespace

TEST_CASE("elementwise: every op of one input, on every dtype and shape") { check_family("UNARY"); }
TEST_CASE("elementwise: every op of two inputs, on every dtype and shape") { check_family("BINARY"); }
TEST_CASE("elementwise: every op of three inputs, on every dtype and shape") { check_family("TERNARY"); }

TEST_CASE("elementwise: 64-bit quotients and remainders truncate, by zero give 0, and wrap once") {
  Bench bench;
  const std::vector<std::pair<int64_t, int64_t>> pairs = {
      {7, 2}, {-7, 2}, {7, -2}, {-7, -2}, {5, 0}, {INT64_MIN, -1}, {INT64_MIN, 1}, {INT64_MAX, 3}, {0, 9}};
  const auto n = static_cast<int64_t>(pairs.size());
  for (const uint32_t op : {TN_OP_div, TN_OP_mod}) {
    FragmentBuilder f;
    const uint32_t a = f.input(TN_DTYPE_i64, {n}), b = f.input(TN_DTYPE_i64, {n}),
                   c = f.output(TN_DTYPE_i64, {n});
    f.node(op, {a, b}, {c});
    Tensor x(TN_DTYPE_i64, {n}), y(TN_DTYPE_i64, {n}), z(TN_DTYPE_i64, {n});
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(x.bytes.data() + 8 * i, &pairs[static_cast<size_t>(i)].first, 8);
      std::memcpy(y.bytes.data() + 8 * i, &pairs[static_cast<size_t>(i)].second, 8);
    }
    bench.run(compile(bench.device, f.fragment()), {&x, &y}, {&z});
    for (int64_t i = 0; i < n; ++i) {
      const auto [p, q] = pairs[static_cast<size_t>(i)];
      const bool wraps = p == INT64_MIN && q == -1;
      const int64_t expected = q == 0 ? 0 : op == TN_OP_div ? (wraps ? p : p / q) : (wraps ? 0 : p % q);
      CHECK(raw<int64_t>(z.bytes.data() + 8 * i) == expected);
    }
  }
}
