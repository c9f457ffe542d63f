// SPDX-License-Identifier: Apache-2.0
// elementwise.cpp: one element of each operand at a time; floats in double, integers in 64 bits that wrap.
#include "node.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace tenon::sim {

namespace {

constexpr double sqrt_half = 0.70710678118654752440, inv_sqrt_2pi = 0.39894228040143267794;
constexpr double gelu_linear = 0.79788456080286535588, gelu_cubic = 0.044715;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double gelu(double x) { return x * 0.5 * std::erfc(-x * sqrt_half); }
double gelu_slope(double x) {
  return 0.5 * std::erfc(-x * sqrt_half) + x * inv_sqrt_2pi * std::exp(-x * x / 2);
}
// ½(1 + tanh u) is logistic(2u).
double gelu_turn(double x) { return 2 * gelu_linear * (x + gelu_cubic * x * x * x); }
double gelu_tanh(double x) { return x * logistic(gelu_turn(x)); }
double gelu_tanh_slope(double x) {
  const double gate = logistic(gelu_turn(x)), bend = gate * logistic(-gelu_turn(x));
  if (bend == 0) return gate;  // far out, where the slope may be infinite
  return gate + 2 * x * bend * gelu_linear * (1 + 3 * gelu_cubic * x * x);
}
double silu_slope(double x) { return logistic(x) * (1 + x * logistic(-x)); }

double unary(const Node& node, double x) {
  switch (node.op) {
    case TN_OP_neg:
      return -x;
    case TN_OP_abs:
      return std::fabs(x);
    case TN_OP_exp:
      return std::exp(x);
    case TN_OP_log:
      return std::log(x);
    case TN_OP_sqrt:
      return std::sqrt(x);
    case TN_OP_rsqrt:
      return 1 / std::sqrt(x);
    case TN_OP_square:
      return x * x;
    case TN_OP_reciprocal:
      return 1 / x;
    case TN_OP_sigmoid:
      return logistic(x);
    case TN_OP_tanh:
      return std::tanh(x);
    case TN_OP_relu:
      return x < 0 ? 0 : x;
    case TN_OP_gelu:
      return node.integer("tanh") != 0 ? gelu_tanh(x) : gelu(x);
    case TN_OP_silu:
      return x * logistic(x);
    case TN_OP_floor:
      return std::floor(x);
    case TN_OP_sign:
      return x > 0 ? 1 : x < 0 ? -1 : x;
    case TN_OP_erf:
      return std::erf(x);
    case TN_OP_sin:
      return std::sin(x);
    case TN_OP_cos:
      return std::cos(x);
    default:
      return x * node.real("scale") + node.real("bias");
  }
}

// T is int64_t or uint64_t; sums and products are of bits, so that they wrap.
template <class T>
T unary_whole(uint32_t op, T x) {
  const auto bits = static_cast<uint64_t>(x);
  switch (op) {
    case TN_OP_neg:
      return static_cast<T>(0 - bits);
    case TN_OP_abs:
      return x < T{0} ? static_cast<T>(0 - bits) : x;
    case TN_OP_square:
      return static_cast<T>(bits * bits);
    case TN_OP_relu:
      return std::max(x, T{0});
    default:
      return x > T{0} ? T{1} : x < T{0} ? static_cast<T>(-1) : T{0};
  }
}

template <class T>
T greater_of(T a, T b) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return a > b ? a : b;
}
template <class T>
T lesser_of(T a, T b) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return a < b ? a : b;
}

double binary(const Node& node, double a, double b) {
  switch (node.op) {
    case TN_OP_add:
      return a + b;
    case TN_OP_sub:
      return a - b;
    case TN_OP_mul:
      return a * b;
    case TN_OP_div:
      return a / b;
    case TN_OP_max:
      return greater_of(a, b);
    case TN_OP_min:
      return lesser_of(a, b);
    case TN_OP_pow:
      return std::pow(a, b);
    case TN_OP_mod:
      return std::fmod(a, b);
    case TN_OP_relu_grad:
      return b > 0 ? a : 0;
    case TN_OP_gelu_grad:
      return a * (node.integer("tanh") != 0 ? gelu_tanh_slope(b) : gelu_slope(b));
    case TN_OP_silu_grad:
      return a * silu_slope(b);
    case TN_OP_sigmoid_grad:
      return a * b * (1 - b);
    default:
      return a * (1 - b * b);  // tanh_grad
  }
}

template <class T>
T binary_whole(uint32_t op, T a, T b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  const bool minus_one = std::is_signed_v<T> && b == static_cast<T>(-1);  // the quotient may not fit
  switch (op) {
    case TN_OP_add:
      return static_cast<T>(x + y);
    case TN_OP_sub:
      return static_cast<T>(x - y);
    case TN_OP_mul:
      return static_cast<T>(x * y);
    case TN_OP_div:
      return b == 0 ? T{0} : minus_one ? static_cast<T>(0 - x) : static_cast<T>(a / b);
    case TN_OP_mod:
      return b == 0 || minus_one ? T{0} : static_cast<T>(a % b);
    case TN_OP_max:
      return greater_of(a, b);
    default:
      return lesser_of(a, b);
  }
}

template <class T>
bool compare(uint32_t op, T a, T b) {
  switch (op) {
    case TN_OP_equal:
      return a == b;
    case TN_OP_not_equal:
      return a != b;
    case TN_OP_less:
      return a < b;
    case TN_OP_less_equal:
      return a <= b;
    case TN_OP_greater:
      return a > b;
    default:
      return a >= b;
  }
}

template <class T>
T element(const Operand& x, uint64_t i) {
  if constexpr (std::is_same_v<T, double>)
    return x.real(i);
  else
    return static_cast<T>(x.bits(i));
}

// Calls body(T()) with the type that computes `dtype`.
template <class Body>
void as_computed(uint32_t dtype, Body&& body) {
  if (is_real(dtype)) return body(double{});
  if (is_signed(dtype)) return body(int64_t{});
  body(uint64_t{});
}

template <class T>
void store(const Operand& out, uint64_t i, T value) {
  if constexpr (std::is_same_v<T, double>)
    out.set(i, value);
  else
    out.set_bits(i, static_cast<uint64_t>(value));
}

void run_unary(const Call& c) {
  const Operand x = c.in[0].spread(c.out[0].dims());
  as_computed(x.dtype(), [&]<class T>(T) {
    for (uint64_t i = 0; i < c.out[0].count(); ++i) {
      const T value = element<T>(x, i);
      if constexpr (std::is_same_v<T, double>)
        store(c.out[0], i, unary(c.node, value));
      else
        store(c.out[0], i, unary_whole(c.node.op, value));
    }
  });
}

void run_binary(const Call& c) {
  const Operand a = c.in[0].spread(c.out[0].dims()), b = c.in[1].spread(c.out[0].dims());
  as_computed(a.dtype(), [&]<class T>(T) {
    for (uint64_t i = 0; i < c.out[0].count(); ++i) {
      const T x = element<T>(a, i), y = element<T>(b, i);
      if constexpr (std::is_same_v<T, double>)
        store(c.out[0], i, binary(c.node, x, y));
      else
        store(c.out[0], i, binary_whole(c.node.op, x, y));
    }
  });
}

void run_compare(const Call& c) {
  const Operand a = c.in[0].spread(c.out[0].dims()), b = c.in[1].spread(c.out[0].dims());
  as_computed(a.dtype(), [&]<class T>(T) {
    for (uint64_t i = 0; i < c.out[0].count(); ++i)
      c.out[0].set_bits(i, compare(c.node.op, element<T>(a, i), element<T>(b, i)) ? 1 : 0);
  });
}

void run_logic(const Call& c) {
  const Operand a = c.in[0].spread(c.out[0].dims());
  const Operand b = c.in.back().spread(c.out[0].dims());
  for (uint64_t i = 0; i < c.out[0].count(); ++i) {
    const bool x = a.bits(i) != 0, y = b.bits(i) != 0;
    const bool value = c.node.op == TN_OP_logical_not ? !x : c.node.op == TN_OP_logical_and ? x && y : x || y;
    c.out[0].set_bits(i, value ? 1 : 0);
  }
}

void run_is_finite(const Call& c) {
  const Operand x = c.in[0].spread(c.out[0].dims());
  for (uint64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].set_bits(i, !is_real(x.dtype()) || std::isfinite(x.real(i)) ? 1 : 0);
}

void run_identity(const Call& c) {
  const Operand x = c.in[0].spread(c.out[0].dims());
  for (uint64_t i = 0; i < c.out[0].count(); ++i) c.out[0].take(i, x, i);
}

void run_cast(const Call& c) {
  const Operand x = c.in[0].spread(c.out[0].dims());
  const Operand& out = c.out[0];
  for (uint64_t i = 0; i < out.count(); ++i) {
    if (is_real(out.dtype()) && is_real(x.dtype())) {
      out.set(i, x.real(i));
    } else if (is_real(out.dtype())) {  // a long double holds every integer, so there is one rounding
      const uint64_t bits = x.bits(i);
      out.set(i, is_signed(x.dtype()) ? static_cast<long double>(static_cast<int64_t>(bits))
                                      : static_cast<long double>(bits));
    } else if (!is_real(x.dtype())) {
      out.set_bits(i, x.bits(i));
    } else {
      const double value = x.real(i);
      out.set_bits(i, out.dtype() == TN_DTYPE_bool ? (value != 0 ? 1 : 0) : saturate(out.dtype(), value));
    }
  }
}

void run_where(const Call& c) {
  const Dims& dims = c.out[0].dims();
  const Operand test = c.in[0].spread(dims), a = c.in[1].spread(dims), b = c.in[2].spread(dims);
  for (uint64_t i = 0; i < c.out[0].count(); ++i) c.out[0].take(i, test.bits(i) != 0 ? a : b, i);
}

void run_clip(const Call& c) {
  const Dims& dims = c.out[0].dims();
  const Operand x = c.in[0].spread(dims), low = c.in[1].spread(dims), high = c.in[2].spread(dims);
  as_computed(x.dtype(), [&]<class T>(T) {
    for (uint64_t i = 0; i < c.out[0].count(); ++i) {
      store(c.out[0], i, lesser_of(greater_of(element<T>(x, i), element<T>(low, i)), element<T>(high, i)));
    }
  });
}

void run_fma(const Call& c) {
  const Dims& dims = c.out[0].dims();
  const Operand a = c.in[0].spread(dims), b = c.in[1].spread(dims), d = c.in[2].spread(dims);
  for (uint64_t i = 0; i < c.out[0].count(); ++i) c.out[0].set(i, std::fma(a.real(i), b.real(i), d.real(i)));
}

}  // namespace

Routine elementwise(uint32_t op) {
  if (op == TN_OP_cast) return run_cast;
  if (op == TN_OP_identity) return run_identity;
  if (op == TN_OP_is_finite) return run_is_finite;
  if (op == TN_OP_logical_not || op == TN_OP_logical_and || op == TN_OP_logical_or) return run_logic;
  if (op == TN_OP_where) return run_where;
  if (op == TN_OP_clip) return run_clip;
  if (op == TN_OP_fma) return run_fma;
  if (op >= TN_OP_equal && op <= TN_OP_greater_equal) return run_compare;
  const std::string_view family = author::op_row(op).family;
  return family == "UNARY" ? run_unary : family == "BINARY" ? run_binary : nullptr;
}

}  // namespace tenon::sim
