// SPDX-License-Identifier: Apache-2.0
// number.cpp: halves by their definition, the rest by the compiler's own conversions.
#include "number.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace tenon::sim {

namespace {

// A float of 16 bits: how many of them are fraction, and its exponents.
struct Half {
  int fraction, least, most;
};
constexpr Half half_of(uint32_t dtype) {
  return dtype == TN_DTYPE_f16 ? Half{10, -14, 15} : Half{7, -126, 127};
}

template <class T>
T raw(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void put(std::byte* at, T value) noexcept {
  std::memcpy(at, &value, sizeof value);
}

double unpack(const Half& h, uint16_t bits) noexcept {
  const int exponent = (bits & 0x7fff) >> h.fraction, fraction = bits & ((1 << h.fraction) - 1);
  double value = exponent == 0 ? std::ldexp(fraction, h.least - h.fraction)
                               : std::ldexp(fraction + (1 << h.fraction), exponent - h.most - h.fraction);
  if (exponent == 2 * h.most + 1) {
    value =
        fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

uint16_t pack(const Half& h, long double value) noexcept {
  const int sign = std::signbit(value) ? 0x8000 : 0, infinity = (2 * h.most + 1) << h.fraction;
  const long double size = std::fabs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | infinity | 1 << (h.fraction - 1));
  if (size >= std::ldexp(1.0L, h.most + 1)) return static_cast<uint16_t>(sign | infinity);
  const int exponent = size == 0 ? h.least : std::max(std::ilogb(size), h.least);
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(size, h.fraction - exponent)));
  // A subnormal has exponent field 0; one that rounds up to a normal number carries into it by itself.
  const bool normal = steps >= 1 << h.fraction;
  const int bits = normal ? ((exponent + h.most) << h.fraction) + steps - (1 << h.fraction) : steps;
  return static_cast<uint16_t>(sign | bits);
}

}  // namespace

double load_real(uint32_t dtype, const std::byte* at) noexcept {
  if (dtype == TN_DTYPE_f64) return raw<double>(at);
  if (dtype == TN_DTYPE_f32) return raw<float>(at);
  return unpack(half_of(dtype), raw<uint16_t>(at));
}

void store_real(uint32_t dtype, std::byte* at, long double value) noexcept {
  if (dtype == TN_DTYPE_f64) return put(at, static_cast<double>(value));
  if (dtype == TN_DTYPE_f32) return put(at, static_cast<float>(value));
  put(at, pack(half_of(dtype), value));
}

uint64_t load_bits(uint32_t dtype, const std::byte* at) noexcept {
  switch (dtype) {
    case TN_DTYPE_i8:
      return static_cast<uint64_t>(raw<int8_t>(at));
    case TN_DTYPE_i16:
      return static_cast<uint64_t>(raw<int16_t>(at));
    case TN_DTYPE_i32:
      return static_cast<uint64_t>(raw<int32_t>(at));
    case TN_DTYPE_u16:
      return raw<uint16_t>(at);
    case TN_DTYPE_u32:
      return raw<uint32_t>(at);
    case TN_DTYPE_u64:
    case TN_DTYPE_i64:
      return raw<uint64_t>(at);
    default:
      return raw<uint8_t>(at);
  }
}

void store_bits(uint32_t dtype, std::byte* at, uint64_t value) noexcept {
  if (dtype == TN_DTYPE_bool) return put<uint8_t>(at, value != 0);
  switch (bytes_of(dtype)) {
    case 1:
      return put(at, static_cast<uint8_t>(value));
    case 2:
      return put(at, static_cast<uint16_t>(value));
    case 4:
      return put(at, static_cast<uint32_t>(value));
    default:
      return put(at, value);
  }
}

uint64_t saturate(uint32_t dtype, double value) noexcept {
  if (std::isnan(value)) return 0;
  const int bits = static_cast<int>(author::dtype_bits(dtype)) - (is_signed(dtype) ? 1 : 0);
  const double past = std::ldexp(1.0, bits), whole = std::trunc(value);
  const uint64_t highest = bits < 1 ? 0 : UINT64_MAX >> (64 - bits);
  if (whole >= past) return highest;
  if (!is_signed(dtype)) return whole <= 0 ? 0 : static_cast<uint64_t>(whole);
  return whole < -past ? ~highest : static_cast<uint64_t>(static_cast<int64_t>(whole));
}

}  // namespace tenon::sim
