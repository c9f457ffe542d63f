// SPDX-License-Identifier: Apache-2.0
// number.hpp: one element of any dtype, as the kit computes with it, and the distances that tolerances are made of.
//
// Invariant: decode(encode(x)) is x rounded once, to nearest even; nothing here depends on what a plugin does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tenon::conform {

// `real` of a float type; `whole` of every other, modulo 2^64, sign-extended where the type is signed.
struct Scalar {
  double real = 0;
  uint64_t whole = 0;

  static Scalar of(double value) noexcept { return {value, 0}; }
  static Scalar of_whole(uint64_t value) noexcept { return {0, value}; }
  int64_t integer() const noexcept { return static_cast<int64_t>(whole); }
};

// A binary floating-point format.
struct Format {
  int precision;     // bits, the implicit one included
  int min_exponent;  // of the smallest normal number
  double largest;
  double roundoff() const noexcept;  // half of the distance from 1 to the next number
  double smallest() const noexcept;  // the least subnormal
};

// The format of a float dtype. [any-thread; does not block; cannot fail]
const Format& format_of(uint32_t dtype) noexcept;
// What ops of this dtype compute in at least: f32 for halves. [any-thread; does not block; cannot fail]
const Format& computing_format(uint32_t dtype) noexcept;
bool is_half(uint32_t dtype) noexcept;
bool is_signed(uint32_t dtype) noexcept;

// Rounds to the format: nearest even, subnormals kept, overflow to infinity. [any-thread; does not block; cannot fail]
double rounded(const Format& format, double value) noexcept;
// The distance of neighbours around `value`. [any-thread; does not block; cannot fail]
double ulp(const Format& format, double value) noexcept;
// Cuts to the width of an integer dtype and extends its sign; bool is 0 or 1. [any-thread; does not block; cannot fail]
uint64_t wrapped(uint32_t dtype, uint64_t value) noexcept;
// The nearest double whose last bit tells of bits dropped, so that rounding it again to a narrower float is rounding
// once ("round to odd"). [any-thread; does not block; cannot fail]
double to_odd(uint64_t magnitude) noexcept;

// Elements in memory. [any-thread; does not block; cannot fail]
Scalar decode(uint32_t dtype, const std::byte* at) noexcept;
void encode(uint32_t dtype, const Scalar& value, std::byte* at) noexcept;
uint32_t element_bytes(uint32_t dtype) noexcept;

// "0.25", "-inf", "7": as many digits as tell the value. [any-thread; does not block; may throw bad_alloc]
std::string told(uint32_t dtype, const Scalar& value);

}  // namespace tenon::conform
