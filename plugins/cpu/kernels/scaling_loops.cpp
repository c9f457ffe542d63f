// SPDX-License-Identifier: Apache-2.0
// scaling_loops.cpp: the loops, compiled for several instruction sets.
//
// Invariant: what is not finite is found by its bits: exponents of ones.
#include "scaling_loops.hpp"

#include "half.hpp"
#include "wide.hpp"

#include <tenon/fragment.h>

#include <type_traits>

namespace tenon::cpu {
namespace {

// How a type is computed. What is not finite stays so when it is widened, and is told by its bits: exponents of ones.
template <class E>
struct Form {
  using Wide = std::conditional_t<std::is_same_v<E, double>, double, float>;
  using Bits = std::conditional_t<std::is_same_v<E, double>, uint64_t, uint32_t>;
  static constexpr Bits exponent =
      static_cast<Bits>(std::is_same_v<E, double> ? 0x7ff0000000000000u : 0x7f800000u);
  static Bits bad(Wide x) { return (std::bit_cast<Bits>(x) & exponent) == exponent ? Bits{1} : Bits{0}; }
  static Wide widened(E x) {
    if constexpr (sizeof(E) == 2)
      return widen(x);
    else
      return x;
  }
  static E narrowed(Wide x) {
    if constexpr (std::is_same_v<E, F16>)
      return to_f16(x);
    else if constexpr (std::is_same_v<E, BF16>)
      return to_bf16(x);
    else
      return x;
  }
};

template <class E>
struct Unscale {
  using F = Form<E>;
  using Bits = typename F::Bits;
  using Wide = typename F::Wide;

  static Bits look(const E* g, uint64_t n) {
    Bits bad = 0;
#pragma omp simd reduction(| : bad)
    for (uint64_t i = 0; i < n; ++i) bad |= F::bad(F::widened(g[i]));
    return bad;
  }
  static Bits multiply(const E* g, E* out, uint64_t n, Wide factor) {
    Bits bad = 0;
#pragma omp simd reduction(| : bad)
    for (uint64_t i = 0; i < n; ++i) {
      const Wide x = F::widened(g[i]);
      bad |= F::bad(x);
      out[i] = F::narrowed(x * factor);
    }
    return bad;
  }
  static Bits divide(const E* g, E* out, uint64_t n, Wide scale) {
    Bits bad = 0;
#pragma omp simd reduction(| : bad)
    for (uint64_t i = 0; i < n; ++i) {
      const Wide x = F::widened(g[i]);
      bad |= F::bad(x);
      out[i] = F::narrowed(x / scale);
    }
    return bad;
  }
  static bool run(const void* g, void* out, uint64_t n, float scale) {
    const E* const from = static_cast<const E*>(g);
    E* const to = static_cast<E*>(out);
    if (to == nullptr) return look(from, n) == 0;
    const float inverse = exact_inverse(scale);
    if (inverse != 0) return multiply(from, to, n, static_cast<Wide>(inverse)) == 0;
    return divide(from, to, n, static_cast<Wide>(scale)) == 0;
  }
};

}  // namespace

float exact_inverse(float scale) noexcept {
  int exponent = 0;
  const bool power = std::fabs(std::frexp(scale, &exponent)) == 0.5f;
  return power && exponent >= -125 && exponent <= 126 ? 1 / scale : 0;
}

UnscaleRow unscale_row(uint32_t dtype) noexcept {
  switch (dtype) {
    case TN_DTYPE_f16:
      return widest<Unscale<F16>>();
    case TN_DTYPE_bf16:
      return widest<Unscale<BF16>>();
    case TN_DTYPE_f32:
      return widest<Unscale<float>>();
    default:
      return widest<Unscale<double>>();
  }
}

}  // namespace tenon::cpu
