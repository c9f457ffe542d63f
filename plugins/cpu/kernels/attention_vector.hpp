// SPDX-License-Identifier: Apache-2.0
// attention_vector.hpp: vectors as values, on any processor, for the inner loops of attention, and to turn what is packed.
//
// Compilers split one that is wider than a register, 64 bytes where nothing is said. That costs little where it is only moved, and much
// where it is added to or compared: there vectors are of the registers' own width. Loops that multiply and add are compiled with
// contraction.
// Invariant: functions take and give vectors by reference, so no calling convention depends on the instruction set.
#pragma once

#include "attention_rows.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace tenon::cpu {

template <class T, uint32_t bytes = 64>
struct VectorOf {
  typedef T type __attribute__((vector_size(bytes)));
  typedef T in_memory __attribute__((vector_size(bytes), aligned(alignof(T)), may_alias));
};
template <class T, uint32_t bytes = 64>
using Vector = typename VectorOf<T, bytes>::type;

template <class T, uint32_t bytes = 64>
[[gnu::always_inline]] inline void load(Vector<T, bytes>& out, const T* from) noexcept {
  out = *reinterpret_cast<const typename VectorOf<T, bytes>::in_memory*>(from);
}
template <class T, uint32_t bytes = 64>
[[gnu::always_inline]] inline void store(T* to, const Vector<T, bytes>& x) noexcept {
  *reinterpret_cast<typename VectorOf<T, bytes>::in_memory*>(to) = x;
}
// The first n elements, zeros after them.
template <class T>
[[gnu::always_inline]] inline void load_some(Vector<T>& out, const T* from, uint32_t n) noexcept {
  if (n == lanes<T>) return load(out, from);
  alignas(64) T all[lanes<T>] = {};
  std::memcpy(all, from, n * sizeof(T));
  load(out, all);
}
template <class T>
[[gnu::always_inline]] inline void store_some(T* to, const Vector<T>& x, uint32_t n) noexcept {
  if (n == lanes<T>) return store(to, x);
  alignas(64) T all[lanes<T>];
  store(all, x);
  std::memcpy(to, all, n * sizeof(T));
}

// ln 2 to the k, over k!.
template <class T>
constexpr T exp2_term(int k) noexcept {
  constexpr double ln2 = 0.69314718055994530942;
  double out = 1;
  for (int i = 1; i <= k; ++i) out = out * ln2 / i;
  return static_cast<T>(out);
}

// 2^x for x of at most 0, by Taylor's series around the nearest integer, to about one ULP. Where x is below the least normal
// exponent, -∞ included: 0, or where that is as good the least normal number. NaN stays NaN.
template <class T, bool to_zero, uint32_t bytes = 64>
[[gnu::always_inline]] inline void exp2_below(Vector<T, bytes>& out, const Vector<T, bytes>& x) noexcept {
  constexpr bool narrow = sizeof(T) == 4;
  using Bits = std::conditional_t<narrow, int32_t, int64_t>;
  typedef Bits Integers __attribute__((vector_size(bytes)));
  using V = Vector<T, bytes>;
  constexpr int degree = narrow ? 7 : 13, mantissa = narrow ? 23 : 52, bias = narrow ? 127 : 1023;
  // Adding `round` leaves the nearest integer, biased as an exponent, in the low bits.
  constexpr T least = static_cast<T>(1 - bias), round = (narrow ? T(12582912) : T(6755399441055744)) + bias;
  const V lowest = V{} + least, bounded = lowest > x ? lowest : x;
  const V shifted = bounded + round;
  const V part = bounded - (shifted - round);
  V series = V{} + exp2_term<T>(degree);
#pragma GCC unroll 16
  for (int k = degree - 1; k >= 0; --k) series = series * part + exp2_term<T>(k);
  const Integers power = (Integers)shifted << mantissa;
  out = series * (V)power;
  if (to_zero) out = (V)((Integers)out & ~(Integers)(x < least));
}

namespace detail {

// Element j of the row `i` and of its partner `i + step`, exchanged across the step.
template <uint32_t n, uint32_t step, class V, size_t... j>
[[gnu::always_inline]] inline void exchange(V& low, V& high, std::index_sequence<j...>) noexcept {
  const V a = low, b = high;
  low = __builtin_shufflevector(a, b, ((j & step) != 0 ? n + j - step : j)...);
  high = __builtin_shufflevector(a, b, ((j & step) != 0 ? n + j : j + step)...);
}

template <uint32_t step, class T>
[[gnu::always_inline]] inline void exchange_all(Vector<T>* rows) noexcept {
  constexpr uint32_t n = lanes<T>;
#pragma GCC unroll 16
  for (uint32_t i = 0; i < n; ++i) {
    if ((i & step) == 0) exchange<n, step>(rows[i], rows[i + step], std::make_index_sequence<n>());
  }
}

}  // namespace detail

// A square of lanes<T> rows, turned in place.
template <class T>
[[gnu::always_inline]] inline void turn(Vector<T>* rows) noexcept {
  detail::exchange_all<1, T>(rows);
  detail::exchange_all<2, T>(rows);
  detail::exchange_all<4, T>(rows);
  if constexpr (lanes<T> == 16) detail::exchange_all<8, T>(rows);
}

}  // namespace tenon::cpu
