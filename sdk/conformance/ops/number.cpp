// SPDX-License-Identifier: Apache-2.0
// number.cpp: formats by their definition, not by the machine's types, so that halves need no hardware.
#include "conformance/ops/number.hpp"

#include <tenon/author/names.hpp>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace tenon::conform {

namespace {

constexpr Format f16{.precision = 11, .min_exponent = -14, .largest = 65504};
constexpr Format bf16{.precision = 8, .min_exponent = -126, .largest = 0x1.fep127};
constexpr Format f32{.precision = 24, .min_exponent = -126, .largest = FLT_MAX};
constexpr Format f64{.precision = 53, .min_exponent = -1022, .largest = DBL_MAX};

constexpr int fraction_bits(const Format& format) { return format.precision - 1; }
constexpr uint64_t exponent_mask(const Format& format) {
  return static_cast<uint64_t>(2 * (1 - format.min_exponent) + 1);
}
constexpr uint64_t sign_bit(const Format& format) {
  return (exponent_mask(format) + 1) << fraction_bits(format);
}

double from_bits(const Format& format, uint64_t bits) {
  const uint64_t fraction = bits & ((uint64_t{1} << fraction_bits(format)) - 1);
  const uint64_t exponent = (bits >> fraction_bits(format)) & exponent_mask(format);
  const double sign = (bits & sign_bit(format)) != 0 ? -1 : 1;
  if (exponent == exponent_mask(format)) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  }
  const uint64_t hidden = exponent != 0 ? uint64_t{1} << fraction_bits(format) : 0;
  const int scale =
      std::max<int>(static_cast<int>(exponent), 1) - 1 + format.min_exponent - fraction_bits(format);
  return sign * std::ldexp(static_cast<double>(fraction | hidden), scale);
}

uint64_t to_bits(const Format& format, double value) {
  const uint64_t sign = std::signbit(value) ? sign_bit(format) : 0;
  const uint64_t infinite = exponent_mask(format) << fraction_bits(format);
  if (std::isnan(value)) return infinite | (uint64_t{1} << (fraction_bits(format) - 1));
  const double near = std::fabs(rounded(format, value));
  if (std::isinf(near)) return sign | infinite;
  if (near == 0) return sign;
  const int exponent = std::max(std::ilogb(near), format.min_exponent);
  const auto digits = static_cast<uint64_t>(std::ldexp(near, fraction_bits(format) - exponent));
  // A normal number's hidden bit carries into the exponent field by itself.
  return sign | ((static_cast<uint64_t>(exponent - format.min_exponent) << fraction_bits(format)) + digits);
}

}  // namespace

double Format::roundoff() const noexcept { return std::ldexp(1.0, -precision); }
double Format::smallest() const noexcept { return std::ldexp(1.0, min_exponent - precision + 1); }

const Format& format_of(uint32_t dtype) noexcept {
  switch (dtype) {
    case TN_DTYPE_f16:
      return f16;
    case TN_DTYPE_bf16:
      return bf16;
    case TN_DTYPE_f32:
      return f32;
    default:
      return f64;
  }
}

const Format& computing_format(uint32_t dtype) noexcept { return dtype == TN_DTYPE_f64 ? f64 : f32; }

bool is_half(uint32_t dtype) noexcept { return dtype == TN_DTYPE_f16 || dtype == TN_DTYPE_bf16; }

bool is_signed(uint32_t dtype) noexcept {
  return author::dtype_row(dtype).kind == author::DtypeClass::signed_integer;
}

double ulp(const Format& format, double value) noexcept {
  if (value == 0 || std::isnan(value)) return format.smallest();
  const double near = std::min(std::fabs(value), format.largest);
  return std::ldexp(1.0, std::max(std::ilogb(near), format.min_exponent) - fraction_bits(format));
}

double rounded(const Format& format, double value) noexcept {
  if (value == 0 || !std::isfinite(value) || format.precision == f64.precision) return value;
  // The unit is taken from the value itself: one beyond `largest` is rounded on its own grid first.
  const int exponent = std::max(std::ilogb(value), format.min_exponent) - fraction_bits(format);
  const double near = std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
  return std::fabs(near) > format.largest ? std::copysign(HUGE_VAL, value) : near;
}

uint64_t wrapped(uint32_t dtype, uint64_t value) noexcept {
  if (dtype == TN_DTYPE_bool) return value != 0 ? 1 : 0;
  const uint32_t drop = 64 - author::dtype_bits(dtype);
  return is_signed(dtype) ? static_cast<uint64_t>(static_cast<int64_t>(value << drop) >> drop)
                          : value << drop >> drop;
}

double to_odd(uint64_t magnitude) noexcept {
  const int drop = 11 - std::countl_zero(magnitude | 1);
  if (drop <= 0) return static_cast<double>(magnitude);
  const uint64_t kept = magnitude >> drop;
  return std::ldexp(static_cast<double>(kept | ((kept << drop) != magnitude ? 1 : 0)), drop);
}

uint32_t element_bytes(uint32_t dtype) noexcept { return author::dtype_bits(dtype) / 8; }

Scalar decode(uint32_t dtype, const std::byte* at) noexcept {
  uint64_t bits = 0;
  static_assert(std::endian::native == std::endian::little,
                "a shorter element is the first bytes of the word");
  std::memcpy(&bits, at, element_bytes(dtype));
  if (author::is_float(dtype)) return Scalar::of(from_bits(format_of(dtype), bits));
  // A bool is one byte, 0 or 1: another byte stays what it is and so differs from both.
  return Scalar::of_whole(dtype == TN_DTYPE_bool ? bits : wrapped(dtype, bits));
}

void encode(uint32_t dtype, const Scalar& value, std::byte* at) noexcept {
  const uint64_t bits =
      author::is_float(dtype) ? to_bits(format_of(dtype), value.real) : wrapped(dtype, value.whole);
  std::memcpy(at, &bits, element_bytes(dtype));
}

std::string told(uint32_t dtype, const Scalar& value) {
  if (!author::is_float(dtype)) {
    return is_signed(dtype) ? std::to_string(value.integer()) : std::to_string(value.whole);
  }
  if (std::isnan(value.real)) return "nan";
  char out[40];
  std::snprintf(out, sizeof out, "%.*g",
                dtype == TN_DTYPE_f64   ? 17
                : dtype == TN_DTYPE_f32 ? 9
                                        : 6,
                value.real);
  return out;
}

}  // namespace tenon::conform
