// SPDX-License-Identifier: Apache-2.0
// literal.cpp: numbers and types as the source spells them.
#include "literal.hpp"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace tenon::cuda {

namespace {

struct Type {
  const char *stored = "?", *computed = "?";
};

Type type_of(uint32_t dtype) noexcept {
  switch (dtype) {
    case TN_DTYPE_bool:
      return {"b8", "bool"};
    case TN_DTYPE_f16:
      return {"f16", "f32"};
    case TN_DTYPE_bf16:
      return {"bf16", "f32"};
    case TN_DTYPE_u8:
      return {"u8", "u8"};
    case TN_DTYPE_i8:
      return {"i8", "i8"};
    case TN_DTYPE_u16:
      return {"u16", "u16"};
    case TN_DTYPE_i16:
      return {"i16", "i16"};
    case TN_DTYPE_u32:
      return {"u32", "u32"};
    case TN_DTYPE_i32:
      return {"i32", "i32"};
    case TN_DTYPE_u64:
      return {"u64", "u64"};
    case TN_DTYPE_i64:
      return {"i64", "i64"};
    case TN_DTYPE_f32:
      return {"f32", "f32"};
    case TN_DTYPE_f64:
      return {"f64", "f64"};
    default:
      return {};
  }
}

// A format of `digits` significant binary digits whose least normal exponent is `least`.
struct Format {
  int digits, least;
  double largest;
};
constexpr Format f16{11, -14, 65504}, bf16{8, -126, 0x1.fep127};

double rounded(const Format& format, double value) noexcept {
  if (value == 0 || !std::isfinite(value)) return value;
  const int unit = std::max(std::ilogb(value), format.least) - format.digits + 1;
  const double near = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(near) > format.largest ? std::copysign(HUGE_VAL, value) : near;
}

// A half's value to its bits; f16 by its own fields, bf16 as the top of an f32.
uint64_t half_bits(uint32_t dtype, double value) noexcept {
  if (dtype == TN_DTYPE_bf16) {
    if (std::isnan(value)) return 0x7FC0;
    return std::bit_cast<uint32_t>(static_cast<float>(rounded(bf16, value))) >> 16;
  }
  if (std::isnan(value)) return 0x7E00;
  const double near = rounded(f16, value);
  const uint64_t sign = std::signbit(near) ? 0x8000 : 0;
  if (std::isinf(near)) return sign | 0x7C00;
  if (near == 0) return sign;
  const int exponent = std::max(std::ilogb(near), f16.least);
  const auto digits = static_cast<uint64_t>(std::ldexp(std::fabs(near), f16.digits - 1 - exponent));
  return sign | ((static_cast<uint64_t>(exponent - f16.least) << 10) + digits);
}

float half_value(uint32_t dtype, uint64_t bits) noexcept {
  if (dtype == TN_DTYPE_bf16) return std::bit_cast<float>(static_cast<uint32_t>(bits << 16));
  const uint64_t exponent = bits >> 10 & 0x1F, digits = bits & 0x3FF;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0x1F) return digits != 0 ? std::nanf("") : sign * HUGE_VALF;
  const uint64_t hidden = exponent != 0 ? 0x400 : 0;
  return sign *
         std::ldexp(static_cast<float>(digits | hidden), static_cast<int>(exponent != 0 ? exponent : 1) - 25);
}

std::string hex(const char* before, uint64_t bits, const char* after) {
  char out[64];
  std::snprintf(out, sizeof out, "%s0x%llx%s", before, static_cast<unsigned long long>(bits), after);
  return out;
}

std::string f32_literal(float value) { return hex("f32_of(", std::bit_cast<uint32_t>(value), "u)"); }

}  // namespace

const char* stored_type(uint32_t dtype) noexcept { return type_of(dtype).stored; }
const char* register_type(uint32_t dtype) noexcept { return type_of(dtype).computed; }

uint64_t bits_of(uint32_t dtype, double value) noexcept {
  switch (dtype) {
    case TN_DTYPE_f64:
      return std::bit_cast<uint64_t>(value);
    case TN_DTYPE_f32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case TN_DTYPE_f16:
    case TN_DTYPE_bf16:
      return half_bits(dtype, value);
    case TN_DTYPE_bool:
      return value != 0 ? 1 : 0;
    default: {
      // What no i64 holds is cut to it.
      const int64_t whole = std::isnan(value)  ? 0
                            : value >= 0x1p63  ? INT64_MAX
                            : value <= -0x1p63 ? INT64_MIN
                                               : static_cast<int64_t>(value);
      const uint32_t drop = 64 - author::dtype_bits(dtype);
      return static_cast<uint64_t>(whole) << drop >> drop;
    }
  }
}

std::string literal(uint32_t dtype, uint64_t bits) {
  switch (dtype) {
    case TN_DTYPE_f64:
      return hex("f64_of(", bits, "ull)");
    case TN_DTYPE_f32:
      return hex("f32_of(", bits, "u)");
    case TN_DTYPE_f16:
    case TN_DTYPE_bf16:
      return f32_literal(half_value(dtype, bits));
    case TN_DTYPE_bool:
      return bits != 0 ? "true" : "false";
    default:
      return std::string("static_cast<") + register_type(dtype) + ">(" + hex("", bits, "ull)");
  }
}

std::string literal(double value) { return literal(TN_DTYPE_f64, std::bit_cast<uint64_t>(value)); }

std::optional<uint64_t> repeated_bits(const author::TensorView& tensor) noexcept {
  const uint64_t count = tensor.elements();
  if (!tensor.is_constant() || count == 0) return std::nullopt;
  const char* const data = static_cast<const char*>(tensor.raw().constant);
  const size_t size = bytes_of(tensor.dtype());
  for (uint64_t i = 1; i < count; ++i) {
    if (std::memcmp(data, data + i * size, size) != 0) return std::nullopt;
  }
  uint64_t bits = 0;
  static_assert(std::endian::native == std::endian::little, "an element is the first bytes of the word");
  std::memcpy(&bits, data, size);
  return bits;
}

std::string constant_array(const std::string& name, const author::TensorView& tensor) {
  const uint64_t bytes = author::dtype_bytes(tensor.dtype(), tensor.elements());
  const char* const data = static_cast<const char*>(tensor.raw().constant);
  std::string out = "alignas(16) __device__ const u32 " + name + "[] = {";
  for (uint64_t at = 0; at < bytes; at += 4) {
    uint32_t word = 0;
    std::memcpy(&word, data + at, std::min<uint64_t>(4, bytes - at));
    out += at % 64 == 0 ? "\n  " : "";
    out += hex("", word, "u,");
  }
  return out + "\n};\n";
}

}  // namespace tenon::cuda
