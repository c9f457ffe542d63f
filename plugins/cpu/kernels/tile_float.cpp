// SPDX-License-Identifier: Apache-2.0
// tile_float.cpp: arithmetic and comparisons on f32 and f64 tiles: float_ops.hpp in loops.
//
// Invariant: what float_ops has no formula for in a class is C's own function, one element at a time.
#include "float_ops.hpp"

#include <cmath>
#include <numbers>

namespace tenon::cpu {
namespace {

template <class T, class F>
struct Map {
  template <bool fused>
  struct Loop {
    using N = Scalar<T, fused>;

    TENON_CPU_LOOP static auto value(const T* x, const T* y, const T* z, uint32_t i, const Immediate& imm) {
      if constexpr (std::is_invocable_v<F, N>)
        return F{}(N(x[i]));
      else if constexpr (std::is_invocable_v<F, N, const Immediate&>)
        return F{}(N(x[i]), imm);
      else if constexpr (std::is_invocable_v<F, N, N>)
        return F{}(N(x[i]), N(y[i]));
      else
        return F{}(N(x[i]), N(y[i]), N(z[i]));
    }
    static void run(void* dst, const void* a, const void* b, const void* c, uint32_t n,
                    const Immediate& imm) {
      const auto *x = static_cast<const T*>(a), *y = static_cast<const T*>(b), *z = static_cast<const T*>(c);
      if constexpr (std::is_same_v<decltype(value(x, y, z, 0, imm)), bool>) {
        auto* __restrict out = static_cast<uint8_t*>(dst);
        for (uint32_t i = 0; i < n; ++i) out[i] = value(x, y, z, i, imm) ? 1 : 0;
      } else {
        auto* __restrict out = static_cast<T*>(dst);
        for (uint32_t i = 0; i < n; ++i) out[i] = value(x, y, z, i, imm).v;
      }
    }
  };
};

template <class N, class F>
inline constexpr bool takes = std::is_invocable_v<F, N> || std::is_invocable_v<F, N, const Immediate&> ||
                              std::is_invocable_v<F, N, N> || std::is_invocable_v<F, N, N, N>;

template <class T>
TileFn formula_op(uint32_t op, bool variant) noexcept {
  return float_ops::with(op, variant, [](auto f) -> TileFn {
    using F = decltype(f);
    if constexpr (takes<Scalar<T, true>, F>)
      return widest_of<Map<T, F>::template Loop>();
    else
      return nullptr;
  });
}

// One op a line reads as a table.
// clang-format off
struct Log { template <class T> T operator()(T x) const { return std::log(x); } };
struct Erf { template <class T> T operator()(T x) const { return std::erf(x); } };
struct Sin { template <class T> T operator()(T x) const { return std::sin(x); } };
struct Cos { template <class T> T operator()(T x) const { return std::cos(x); } };
struct Pow { template <class T> T operator()(T x, T y) const { return std::pow(x, y); } };
struct Mod { template <class T> T operator()(T x, T y) const { return std::fmod(x, y); } };
// clang-format on
// Φ(x) through erfc: near its left tail 1 + erf cancels.
double normal(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
struct Gelu {
  double operator()(double x) const { return x * normal(x); }
};
struct GeluGrad {
  double operator()(double dy, double x) const {
    const double density = 0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi * std::exp(-0.5 * x * x);
    return dy * (normal(x) + x * density);
  }
};

template <class T, class F>
void each(void* dst, const void* a, const void* b, const void*, uint32_t n, const Immediate&) {
  auto* out = static_cast<T*>(dst);
  const auto *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  for (uint32_t i = 0; i < n; ++i) {
    if constexpr (std::is_invocable_v<F, T>)
      out[i] = F{}(x[i]);
    else
      out[i] = F{}(x[i], y[i]);
  }
}

// In either class.
template <class T>
TileFn library_op(uint32_t op) noexcept {
  switch (op) {
    case TN_OP_sin:
      return each<T, Sin>;
    case TN_OP_cos:
      return each<T, Cos>;
    case TN_OP_mod:
      return each<T, Mod>;
    default:
      return nullptr;
  }
}

// Of f64 alone.
TileFn library_op_of_f64(uint32_t op) noexcept {
  switch (op) {
    case TN_OP_log:
      return each<double, Log>;
    case TN_OP_erf:
      return each<double, Erf>;
    case TN_OP_pow:
      return each<double, Pow>;
    case TN_OP_gelu:
      return each<double, Gelu>;
    case TN_OP_gelu_grad:
      return each<double, GeluGrad>;
    default:
      return library_op<double>(op);
  }
}

}  // namespace

TileFn float_op(uint32_t op, Reg reg, bool variant) noexcept {
  const bool wide = reg == Reg::f64;
  const TileFn found = wide ? formula_op<double>(op, variant) : formula_op<float>(op, variant);
  if (found != nullptr) return found;
  return wide ? library_op_of_f64(op) : library_op<float>(op);
}

}  // namespace tenon::cpu
