// SPDX-License-Identifier: Apache-2.0
// tile_float.cpp: arithmetic on f32 and f64 tiles.
//
// Where a formula cancels or amplifies a rounding, f32 is computed in f64 inside the op and rounded once.
// Invariant: NaN comes out wherever the op's meaning lets it; max, min, relu and clip pass it on.
#include "tile_loops.hpp"
#include "wide.hpp"

#include <cmath>
#include <numbers>
#include <type_traits>

namespace tenon::cpu {
namespace {

using std::numbers::inv_sqrtpi;
using std::numbers::sqrt2;

// One over 1 + e^-x without overflow on either side.
template <class T>
T logistic(T x) {
  const T e = std::exp(-std::fabs(x));
  return (x < 0 ? e : T(1)) / (T(1) + e);
}

// One op a line reads as a table.
// clang-format off
struct Neg { template <class T> T operator()(T x) const { return -x; } };
struct Abs { template <class T> T operator()(T x) const { return std::fabs(x); } };
struct Exp { template <class T> T operator()(T x) const { return std::exp(x); } };
struct Log { template <class T> T operator()(T x) const { return std::log(x); } };
struct Sqrt { template <class T> T operator()(T x) const { return std::sqrt(x); } };
struct Rsqrt { template <class T> T operator()(T x) const { return T(1) / std::sqrt(x); } };
struct Square { template <class T> T operator()(T x) const { return x * x; } };
struct Reciprocal { template <class T> T operator()(T x) const { return T(1) / x; } };
struct Sigmoid { template <class T> T operator()(T x) const { return logistic(x); } };
struct Tanh { template <class T> T operator()(T x) const { return std::tanh(x); } };
struct Relu { template <class T> T operator()(T x) const { return x < 0 ? T(0) : x; } };
struct Floor { template <class T> T operator()(T x) const { return std::floor(x); } };
struct Sign { template <class T> T operator()(T x) const { return x > 0 ? T(1) : x < 0 ? T(-1) : x; } };
struct Erf { template <class T> T operator()(T x) const { return std::erf(x); } };
struct Sin { template <class T> T operator()(T x) const { return std::sin(x); } };
struct Cos { template <class T> T operator()(T x) const { return std::cos(x); } };
struct Identity { template <class T> T operator()(T x) const { return x; } };
struct Finite { template <class T> uint8_t operator()(T x) const { return std::isfinite(x) ? 1 : 0; } };
// clang-format on

struct Silu {
  template <class T>
  T operator()(T x) const {
    const double w = x;
    return static_cast<T>(w * logistic(w));
  }
};
// Φ(x) through erfc: near its left tail 1 + erf cancels.
struct Gelu {
  template <class T>
  T operator()(T x) const {
    const double w = x;
    return static_cast<T>(0.5 * w * std::erfc(-w / sqrt2));
  }
};
constexpr double gelu_linear = 0.79788456080286535588;  // √(2/π)
constexpr double gelu_cubic = 0.044715;
// ½(1 + tanh u) is logistic(2u), and what is left to 1 is logistic(-2u).
double gelu_turn(double x) { return 2 * gelu_linear * (x + gelu_cubic * x * x * x); }
struct GeluTanh {
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(x * logistic(gelu_turn(x)));
  }
};
struct Scale {
  template <class T>
  T operator()(T x, const Immediate& imm) const {
    return static_cast<T>(std::is_same_v<T, double> ? std::fma(static_cast<double>(x), imm.a, imm.b)
                                                    : static_cast<double>(x) * imm.a + imm.b);
  }
};

// One op a line reads as a table.
// clang-format off
struct Add { template <class T> T operator()(T x, T y) const { return x + y; } };
struct Sub { template <class T> T operator()(T x, T y) const { return x - y; } };
struct Mul { template <class T> T operator()(T x, T y) const { return x * y; } };
struct Div { template <class T> T operator()(T x, T y) const { return x / y; } };
struct Max { template <class T> T operator()(T x, T y) const { return x > y || x != x ? x : y; } };
struct Min { template <class T> T operator()(T x, T y) const { return x < y || x != x ? x : y; } };
struct Pow { template <class T> T operator()(T x, T y) const { return std::pow(x, y); } };
struct Mod { template <class T> T operator()(T x, T y) const { return std::fmod(x, y); } };
struct ReluGrad { template <class T> T operator()(T dy, T y) const { return y > 0 ? dy : T(0); } };
// clang-format on
struct GeluGrad {
  template <class T>
  T operator()(T dy, T x) const {
    const double w = x, density = 0.5 * sqrt2 * inv_sqrtpi * std::exp(-0.5 * w * w);
    return static_cast<T>(dy * (0.5 * std::erfc(-w / sqrt2) + w * density));
  }
};
struct GeluTanhGrad {
  template <class T>
  T operator()(T dy, T x) const {
    const double w = x, turn = gelu_turn(w), gate = logistic(turn),
                 slope = gelu_linear * (1 + 3 * gelu_cubic * w * w);
    return static_cast<T>(dy * (gate + 2 * w * gate * logistic(-turn) * slope));
  }
};
struct SiluGrad {
  template <class T>
  T operator()(T dy, T x) const {
    const double w = x, gate = logistic(w);
    return static_cast<T>(dy * (gate * (1 + w * logistic(-w))));
  }
};
struct SigmoidGrad {
  template <class T>
  T operator()(T dy, T y) const {
    const double w = y;
    return static_cast<T>(dy * (w * (1 - w)));
  }
};
struct TanhGrad {
  template <class T>
  T operator()(T dy, T y) const {
    const double w = y;
    return static_cast<T>(dy * (1 - w * w));
  }
};
struct Clip {
  template <class T>
  T operator()(T x, T lo, T hi) const {
    return Min{}(Max{}(x, lo), hi);
  }
};
struct Fma {
  template <class T>
  T operator()(T x, T y, T z) const {
    return static_cast<T>(std::is_same_v<T, double> ? std::fma(static_cast<double>(x), y, z)
                                                    : static_cast<double>(x) * y + z);
  }
};

template <class T>
TileFn unary_op(uint32_t op, bool variant) noexcept {
  switch (op) {
    case TN_OP_neg:
      return widest<map1<T, T, Neg>>();
    case TN_OP_abs:
      return widest<map1<T, T, Abs>>();
    case TN_OP_exp:
      return widest<map1<T, T, Exp>>();
    case TN_OP_log:
      return widest<map1<T, T, Log>>();
    case TN_OP_sqrt:
      return widest<map1<T, T, Sqrt>>();
    case TN_OP_rsqrt:
      return widest<map1<T, T, Rsqrt>>();
    case TN_OP_square:
      return widest<map1<T, T, Square>>();
    case TN_OP_reciprocal:
      return widest<map1<T, T, Reciprocal>>();
    case TN_OP_sigmoid:
      return widest<map1<T, T, Sigmoid>>();
    case TN_OP_tanh:
      return widest<map1<T, T, Tanh>>();
    case TN_OP_relu:
      return widest<map1<T, T, Relu>>();
    case TN_OP_gelu:
      return variant ? widest<map1<T, T, GeluTanh>>() : widest<map1<T, T, Gelu>>();
    case TN_OP_silu:
      return widest<map1<T, T, Silu>>();
    case TN_OP_floor:
      return widest<map1<T, T, Floor>>();
    case TN_OP_sign:
      return widest<map1<T, T, Sign>>();
    case TN_OP_erf:
      return widest<map1<T, T, Erf>>();
    case TN_OP_sin:
      return widest<map1<T, T, Sin>>();
    case TN_OP_cos:
      return widest<map1<T, T, Cos>>();
    case TN_OP_is_finite:
      return widest<map1<uint8_t, T, Finite>>();
    case TN_OP_scale:
      return widest<map1_with<T, T, Scale>>();
    case TN_OP_identity:
      return widest<map1<T, T, Identity>>();
    default:
      return nullptr;
  }
}

template <class T>
TileFn binary_op(uint32_t op, bool variant) noexcept {
  switch (op) {
    case TN_OP_add:
      return widest<map2<T, T, Add>>();
    case TN_OP_sub:
      return widest<map2<T, T, Sub>>();
    case TN_OP_mul:
      return widest<map2<T, T, Mul>>();
    case TN_OP_div:
      return widest<map2<T, T, Div>>();
    case TN_OP_max:
      return widest<map2<T, T, Max>>();
    case TN_OP_min:
      return widest<map2<T, T, Min>>();
    case TN_OP_pow:
      return widest<map2<T, T, Pow>>();
    case TN_OP_mod:
      return widest<map2<T, T, Mod>>();
    case TN_OP_relu_grad:
      return widest<map2<T, T, ReluGrad>>();
    case TN_OP_gelu_grad:
      return variant ? widest<map2<T, T, GeluTanhGrad>>() : widest<map2<T, T, GeluGrad>>();
    case TN_OP_silu_grad:
      return widest<map2<T, T, SiluGrad>>();
    case TN_OP_sigmoid_grad:
      return widest<map2<T, T, SigmoidGrad>>();
    case TN_OP_tanh_grad:
      return widest<map2<T, T, TanhGrad>>();
    case TN_OP_clip:
      return widest<map3<T, T, Clip>>();
    case TN_OP_fma:
      return widest<map3<T, T, Fma>>();
    default:
      return nullptr;
  }
}

template <class T>
TileFn any_op(uint32_t op, bool variant) noexcept {
  const TileFn unary = unary_op<T>(op, variant);
  return unary != nullptr ? unary : binary_op<T>(op, variant);
}

}  // namespace

TileFn float_op(uint32_t op, Reg reg, bool variant) noexcept {
  return reg == Reg::f32 ? any_op<float>(op, variant) : any_op<double>(op, variant);
}

}  // namespace tenon::cpu
