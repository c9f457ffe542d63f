// SPDX-License-Identifier: Apache-2.0
// vector_math_test.cpp: the transcendental functions, by every engine and instruction set, against long double.
//
// Samples step through all f32 bit patterns, so denormals, both zeros, infinities and NaN are among them; halves are taken
// all. The edges where results overflow or vanish are named besides.
// Invariant: the reference knows nothing of the plugin's formulas.
#include "strategies.hpp"

using namespace cpu_test;

namespace {

Number logistic(Number x) { return 1 / (1 + std::exp(-x)); }
Number phi(Number x) { return 0.5L * std::erfc(-x / std::sqrt(2.0L)); }
Number density(Number x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0L)); }
Number turn(Number x) { return 2 * std::sqrt(2 / std::acos(-1.0L)) * (x + 0.044715L * x * x * x); }
Number turn_slope(Number x) { return 2 * std::sqrt(2 / std::acos(-1.0L)) * (1 + 3 * 0.044715L * x * x); }

struct Function {
  uint32_t op;
  bool tanh;
  Number (*value)(Number x);  // of a gradient: for an incoming 1
};
bool is_gradient(const Function& f) { return f.op == TN_OP_gelu_grad || f.op == TN_OP_silu_grad; }

// At an infinity x·sigmoid(x) and the like are what IEEE makes of ∞ · 0, in the reference as in the op.
const Function functions[] = {
    {TN_OP_exp, false, [](Number x) { return std::exp(x); }},
    {TN_OP_log, false, [](Number x) { return std::log(x); }},
    {TN_OP_sqrt, false, [](Number x) { return std::sqrt(x); }},
    {TN_OP_rsqrt, false, [](Number x) { return 1 / std::sqrt(x); }},
    {TN_OP_sigmoid, false, logistic},
    {TN_OP_tanh, false, [](Number x) { return std::tanh(x); }},
    {TN_OP_silu, false, [](Number x) { return x * logistic(x); }},
    {TN_OP_gelu, false, [](Number x) { return x * phi(x); }},
    {TN_OP_gelu, true, [](Number x) { return x * logistic(turn(x)); }},
    {TN_OP_erf, false, [](Number x) { return std::erf(x); }},
    {TN_OP_silu_grad, false, [](Number x) { return logistic(x) * (1 + x * logistic(-x)); }},
    {TN_OP_gelu_grad, false, [](Number x) { return phi(x) + x * density(x); }},
    {TN_OP_gelu_grad, true,
     [](Number x) { return logistic(turn(x)) * (1 + x * logistic(-turn(x)) * turn_slope(x)); }},
};

// Halves whose bit patterns are `step` apart.
Tensor halves(uint32_t dtype, uint32_t step) {
  Tensor out(dtype, {(65535 + step) / step});
  for (uint32_t i = 0; i * step < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i * step);
    std::memcpy(out.bytes.data() + 2 * i, &bits, 2);
  }
  return out;
}

// Bit patterns `step` apart, and the edges of the functions with their neighbours.
Tensor samples_of_f32(uint32_t step) {
  std::vector<uint32_t> bits;
  for (uint64_t u = 0; u <= UINT32_MAX; u += step) bits.push_back(static_cast<uint32_t>(u));
  const float edges[] = {0.0f,        -0.0f,        1.0f,        -1.0f,    0.5f,     88.72283f,    88.72284f,
                         -87.33655f,  -103.972f,    -103.973f,   -104.5f,  -120.0f,  10.0f,        9.01f,
                         0.34657f,    0.70710678f,  1.41421356f, 14.5f,    -14.5f,   1.17549e-38f, 1e-45f,
                         3.40282e38f, -3.40282e38f, -1.2785f,    -0.7518f, -1.5957f, 0.9f,         -0.9f,
                         10.2530f,    -10.2530f,    15.0f,       -15.0f,   16.0f,    -16.0f,       -10.9f,
                         INFINITY,    -INFINITY,    NAN};
  for (const float edge : edges) {
    uint32_t u = 0;
    std::memcpy(&u, &edge, 4);
    for (uint32_t d = 0; d < 9; ++d) bits.push_back(u + d - 4);
  }
  Tensor out(TN_DTYPE_f32, {static_cast<int64_t>(bits.size())});
  std::memcpy(out.bytes.data(), bits.data(), out.bytes.size());
  return out;
}

// f(x), or f'(x), as the plugin has it.
Tensor computed(Bench& bench, const Function& f, const Tensor& x) {
  FragmentBuilder builder;
  Tensor ones(x.dtype, {}), y(x.dtype, x.dims);
  ones.set({}, 1);
  std::vector<const Tensor*> in;
  std::vector<uint32_t> operands;
  if (is_gradient(f)) {
    operands.push_back(builder.input(x.dtype, {}));
    in.push_back(&ones);
  }
  operands.push_back(builder.input(x.dtype, x.dims));
  in.push_back(&x);
  auto& node = builder.node(f.op, operands, {builder.output(x.dtype, x.dims)});
  if (f.op == TN_OP_gelu || f.op == TN_OP_gelu_grad) node.integer("tanh", f.tanh);
  bench.run(compile(bench.device, builder.fragment()), in, {&y});
  return y;
}

// `units` of the last place; of a gradient, whose terms cancel near its root, an ULP of 1 besides.
void check(const std::string& way, const Function& f, const Tensor& x, const Tensor& y, Number units) {
  size_t wrong = 0;
  for (int64_t i = 0; i < x.dims[0]; ++i) {
    const Number at = x.at({i}), got = y.at({i}), expected = f.value(at);
    const Number slack = is_gradient(f) ? 0x1p-23L : 0;
    if (is_gradient(f) && std::isinf(at)) continue;  // ∞ · 0, or not, by the order of the terms
    if (close(got, expected, x.dtype, units, slack) || ++wrong > 3) continue;
    FAIL_CHECK(way << ": " << label(f.op, x.dtype, {}) << (f.tanh ? "'" : "") << " of " << double(at)
                   << " gives " << double(got) << ", expected " << double(expected));
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("vector math: every function of f32 is within its tolerance on samples of all bit patterns") {
  const auto step = tenon::test::full_numbers_or<uint32_t>("bit patterns apart", 65521, 257);
  const Tensor x = samples_of_f32(step);
  for (const Strategy& strategy : strategies()) {
    Bench bench = bench_of(strategy);
    for (const Function& f : functions) {
      const Number units = f.op == TN_OP_sqrt   ? 0.5001L
                           : f.op == TN_OP_silu ? 3.5L
                           : f.op == TN_OP_gelu ? (f.tanh ? 3.5L : 6.5L)
                                                : 3;
      check(strategy.name(), f, x, computed(bench, f, x), units);
    }
  }
}

TEST_CASE("vector math: functions of f64 are within four units on random bit patterns and where they turn") {
  const auto count = tenon::test::full_numbers_or<int64_t>("numbers", 20'000, 1'000'000);
  Random random(tenon::test::seed());
  const Number inf = std::numeric_limits<Number>::infinity(), nan = std::numeric_limits<Number>::quiet_NaN();
  const std::vector<Number> edges = {0,      -0.0L,  inf,  -inf, nan,  0x1p-1074L, -0x1p-1074L, 1,      -1,
                                     709.7L, 709.8L, -708, -745, -746, -752,       -760,        19.06L, 20};
  Tensor x(TN_DTYPE_f64, {count});
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = random();
    const Number small = static_cast<Number>(static_cast<int64_t>(bits)) * 0x1p-58L;  // to ±32
    std::memcpy(x.bytes.data() + 8 * i, &bits, 8);
    if (i % 2 == 0) x.set({i}, rounded(small, TN_DTYPE_f64));
    if (i < static_cast<int64_t>(edges.size()))
      x.set({i}, rounded(edges[static_cast<size_t>(i)], TN_DTYPE_f64));
  }
  for (const Strategy& strategy : strategies()) {
    Bench bench = bench_of(strategy);
    for (const Function& f : functions) {
      if (f.op == TN_OP_exp || f.op == TN_OP_sigmoid || f.op == TN_OP_tanh || f.op == TN_OP_silu ||
          f.op == TN_OP_log)
        check(strategy.name(), f, x, computed(bench, f, x), 4);
    }
  }
}

TEST_CASE("vector math: every function of every half is rounded to one unit") {
  const auto step = tenon::test::full_numbers_or<uint32_t>("bit patterns apart", 7, 1);
  for (const Strategy& strategy : strategies()) {
    Bench bench = bench_of(strategy);
    for (const uint32_t dtype : {TN_DTYPE_f16, TN_DTYPE_bf16}) {
      const Tensor x = halves(dtype, step);
      for (const Function& f : functions) check(strategy.name(), f, x, computed(bench, f, x), 1);
    }
  }
}

TEST_CASE("vector math: powers have C's answers at zeros, ones, infinities and NaN") {
  const Number inf = std::numeric_limits<Number>::infinity(), nan = std::numeric_limits<Number>::quiet_NaN();
  const std::vector<Number> bases = {0,   -0.0L, 1,  -1, 2,  -2,    0.5L,  -0.5L, inf,       -inf,
                                     nan, 3,     -3, 7,  10, 1e-3L, 1e10L, -8,    0x1p-140L, 0x1.fffffep127L};
  const std::vector<Number> exponents = {0,   -0.0L, 1,   -1, 2,   -2,   3,     -3,       0.5L,  -0.5L,
                                         inf, -inf,  nan, 33, -33, 1.5L, 1e10L, 16777217, 0.001L};
  const auto rows = static_cast<int64_t>(bases.size()), columns = static_cast<int64_t>(exponents.size());
  Tensor x(TN_DTYPE_f32, {rows, 1}), y(TN_DTYPE_f32, {columns});
  for (int64_t i = 0; i < rows; ++i) x.set({i, 0}, rounded(bases[static_cast<size_t>(i)], TN_DTYPE_f32));
  for (int64_t i = 0; i < columns; ++i) y.set({i}, rounded(exponents[static_cast<size_t>(i)], TN_DTYPE_f32));
  for (const Strategy& strategy : strategies()) {
    Bench bench = bench_of(strategy);
    FragmentBuilder f;
    const uint32_t a = f.input(TN_DTYPE_f32, x.dims), b = f.input(TN_DTYPE_f32, y.dims);
    f.node(TN_OP_pow, {a, b}, {f.output(TN_DTYPE_f32, {rows, columns})});
    Tensor z(TN_DTYPE_f32, {rows, columns});
    bench.run(compile(bench.device, f.fragment()), {&x, &y}, {&z});
    for_each(z.dims, [&](const Dims& at) {
      const Number expected = std::pow(x.at(at), y.at({at[1]})), got = z.at(at);
      const bool sign = std::isnan(expected) || std::signbit(expected) == std::signbit(got);
      if (!close(got, expected, TN_DTYPE_f32, 1) || !sign)
        FAIL_CHECK(strategy.name() << ": " << double(x.at(at)) << " to the " << double(y.at({at[1]}))
                                   << " gives " << double(got) << ", expected " << double(expected));
    });
  }
}

TEST_CASE("vector math: zeros keep their signs") {
  for (const Strategy& strategy : strategies()) {
    Bench bench = bench_of(strategy);
    for (const uint32_t op :
         {TN_OP_tanh, TN_OP_silu, TN_OP_erf, TN_OP_gelu, TN_OP_neg, TN_OP_floor, TN_OP_relu}) {
      Tensor x(TN_DTYPE_f32, {2});
      x.set({0}, -0.0L);
      x.set({1}, 0.0L);
      const Tensor y = computed(bench, {op, false, nullptr}, x);
      CHECK_MESSAGE(std::signbit(y.at({0})) == (op != TN_OP_neg), strategy.name()
                                                                      << ": " << label(op, TN_DTYPE_f32, {}));
      CHECK_MESSAGE(std::signbit(y.at({1})) == (op == TN_OP_neg), strategy.name()
                                                                      << ": " << label(op, TN_DTYPE_f32, {}));
    }
  }
}

TEST_CASE("vector math: far out gelu's gradient is 1 or 0, however large its polynomial is") {
  for (const Strategy& strategy : strategies()) {
    Bench bench = bench_of(strategy);
    for (const uint32_t dtype : {TN_DTYPE_f64, TN_DTYPE_f32, TN_DTYPE_bf16}) {
      const Number far = dtype == TN_DTYPE_f64 ? 0x1p+700L : 0x1p+100L;
      for (const bool tanh_form : {false, true}) {
        Tensor x(dtype, {2});
        x.set({0}, far);
        x.set({1}, -far);
        const Tensor y = computed(bench, {TN_OP_gelu_grad, tanh_form, nullptr}, x);
        CHECK_MESSAGE(y.at({0}) == 1, strategy.name()
                                          << ": " << label(TN_OP_gelu_grad, dtype, {}) << tanh_form);
        CHECK_MESSAGE(y.at({1}) == 0, strategy.name()
                                          << ": " << label(TN_OP_gelu_grad, dtype, {}) << tanh_form);
      }
    }
  }
}

TEST_CASE("vector math: an infinite gradient passes a slope that only f64 can tell from 0") {
  const Number inf = std::numeric_limits<Number>::infinity();
  for (const Strategy& strategy : strategies()) {
    Bench bench = bench_of(strategy);
    for (const uint32_t op : {TN_OP_gelu_grad, TN_OP_silu_grad}) {
      FragmentBuilder f;
      const uint32_t in = f.input(TN_DTYPE_f32, {2}), at = f.input(TN_DTYPE_f32, {2});
      auto& node = f.node(op, {in, at}, {f.output(TN_DTYPE_f32, {2})});
      if (op == TN_OP_gelu_grad) node.integer("tanh", 0);
      Tensor dy(TN_DTYPE_f32, {2}), x(TN_DTYPE_f32, {2}), y(TN_DTYPE_f32, {2});
      dy.set({0}, inf);
      dy.set({1}, 1);
      for (const int64_t i : {0, 1}) x.set({i}, op == TN_OP_gelu_grad ? -20 : -120);
      bench.run(compile(bench.device, f.fragment()), {&dy, &x}, {&y});
      CHECK_MESSAGE(y.at({0}) == -inf, strategy.name() << ": " << label(op, TN_DTYPE_f32, {}));
      CHECK_MESSAGE(y.at({1}) == 0, strategy.name() << ": " << label(op, TN_DTYPE_f32, {}));
    }
  }
}

TEST_CASE("vector math: every f32 on a grid is cast to each half as it is rounded") {
  const auto step = tenon::test::full_numbers_or<uint32_t>("bit patterns apart", 16381, 61);
  const Tensor x = samples_of_f32(step);
  for (const Strategy& strategy : strategies()) {
    Bench bench = bench_of(strategy);
    for (const uint32_t half : {TN_DTYPE_f16, TN_DTYPE_bf16}) {
      FragmentBuilder f;
      const uint32_t in = f.input(TN_DTYPE_f32, x.dims);
      f.node(TN_OP_cast, {in}, {f.output(half, x.dims)}).dtype("dtype", half);
      Tensor y(half, x.dims);
      bench.run(compile(bench.device, f.fragment()), {&x}, {&y});
      size_t wrong = 0;
      for (int64_t i = 0; i < x.dims[0]; ++i) wrong += same(y.at({i}), rounded(x.at({i}), half)) ? 0 : 1;
      CHECK_MESSAGE(wrong == 0, strategy.name() << ": " << label(TN_OP_cast, half, {}));
    }
  }
}
