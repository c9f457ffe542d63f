// SPDX-License-Identifier: Apache-2.0
// numbers.hpp: the numbers that formulas.hpp is computed with in a loop of the interpreter: one f32 or f64 each.
//
// A formula is a template over its type of number. This file gives it values; jit/traced.hpp gives it a program that is
// being written. What both offer, and a formula may use, is what is here.
// Invariant: each function is one instruction's worth, with that instruction's meaning for NaN and ±0; madd rounds once
// where `fused`, else twice, and nothing else differs.
#pragma once

#include "wide.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace tenon::cpu {

// A number's bits, modulo 2^32 or 2^64.
template <class U>
struct Word {
  U v;

  TENON_CPU_LOOP friend Word operator+(Word a, Word b) { return {a.v + b.v}; }
  TENON_CPU_LOOP friend Word operator-(Word a, Word b) { return {a.v - b.v}; }
  TENON_CPU_LOOP friend Word operator&(Word a, Word b) { return {a.v & b.v}; }
  TENON_CPU_LOOP friend Word operator|(Word a, Word b) { return {a.v | b.v}; }
  TENON_CPU_LOOP friend Word shl(Word a, int by) { return {a.v << by}; }
  TENON_CPU_LOOP friend Word shr(Word a, int by) { return {a.v >> by}; }
  // The sign moves in; of 32 bits only.
  TENON_CPU_LOOP friend Word sar(Word a, int by) {
    return {static_cast<U>(static_cast<std::make_signed_t<U>>(a.v) >> by)};
  }
};

template <class T, bool fused>
struct Scalar {
  using Real = T;
  using Unsigned = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  using Bits = Word<Unsigned>;
  using Mask = bool;
  using Wide = Scalar<double, fused>;
  T v;

  Scalar() = default;
  // A constant, or a value.
  TENON_CPU_LOOP Scalar(T value) : v(value) {}

  TENON_CPU_LOOP friend Scalar operator+(Scalar a, Scalar b) { return a.v + b.v; }
  TENON_CPU_LOOP friend Scalar operator-(Scalar a, Scalar b) { return a.v - b.v; }
  TENON_CPU_LOOP friend Scalar operator*(Scalar a, Scalar b) { return a.v * b.v; }
  TENON_CPU_LOOP friend Scalar operator/(Scalar a, Scalar b) { return a.v / b.v; }
  TENON_CPU_LOOP friend Scalar operator-(Scalar a) { return -a.v; }
  TENON_CPU_LOOP friend Scalar abs(Scalar a) { return std::fabs(a.v); }
  TENON_CPU_LOOP friend Scalar sqrt(Scalar a) { return std::sqrt(a.v); }
  TENON_CPU_LOOP friend Scalar floor(Scalar a) { return std::floor(a.v); }
  // a·b + c as fast as the processor has it, and with one rounding on every processor.
  TENON_CPU_LOOP friend Scalar madd(Scalar a, Scalar b, Scalar c) {
    if constexpr (fused)
      return fma(a, b, c);
    else
      return a.v * b.v + c.v;
  }
  TENON_CPU_LOOP friend Scalar fma(Scalar a, Scalar b, Scalar c) {
    if constexpr (sizeof(T) == 4)
      return __builtin_fmaf(a.v, b.v, c.v);
    else
      return __builtin_fma(a.v, b.v, c.v);
  }
  // What rounding took from the product a·b: exact, and without a call of a library where products are not fused.
  TENON_CPU_LOOP friend Scalar rest_of_product(Scalar a, Scalar b, Scalar product) {
    if constexpr (fused || sizeof(T) == 8)
      return fma(a, b, -product);
    else
      return static_cast<float>(static_cast<double>(a.v) * b.v - product.v);
  }
  // The second operand where either is NaN, or both are zeros.
  TENON_CPU_LOOP friend Scalar lesser(Scalar a, Scalar b) { return a.v < b.v ? a.v : b.v; }
  TENON_CPU_LOOP friend Scalar greater(Scalar a, Scalar b) { return a.v > b.v ? a.v : b.v; }

  TENON_CPU_LOOP friend Mask less(Scalar a, Scalar b) { return a.v < b.v; }
  TENON_CPU_LOOP friend Mask less_equal(Scalar a, Scalar b) { return a.v <= b.v; }
  TENON_CPU_LOOP friend Mask equal(Scalar a, Scalar b) { return a.v == b.v; }
  TENON_CPU_LOOP friend Mask not_equal(Scalar a, Scalar b) { return a.v != b.v; }
  TENON_CPU_LOOP friend Scalar select(Mask mask, Scalar a, Scalar b) { return mask ? a.v : b.v; }

  TENON_CPU_LOOP friend Bits bits(Scalar a) { return {std::bit_cast<Unsigned>(a.v)}; }
  TENON_CPU_LOOP static Scalar from_bits(Bits a) { return std::bit_cast<T>(a.v); }
  // A whole number of 32 bits.
  TENON_CPU_LOOP static Scalar from_whole(Word<uint32_t> a) {
    return static_cast<T>(static_cast<int32_t>(a.v));
  }
  TENON_CPU_LOOP friend Wide widen(Scalar a) { return static_cast<double>(a.v); }
  TENON_CPU_LOOP static Scalar narrowed(Wide a) { return static_cast<T>(a.v); }
};

}  // namespace tenon::cpu
