// SPDX-License-Identifier: Apache-2.0
// half.hpp: f16 and bf16 to f32 and back, rounding to nearest even.
//
// Written without branches that depend on data, so that loops over them vectorise on any processor.
// Invariant: widening is exact; narrowing rounds once, keeps infinities, and gives a quiet NaN for a NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace tenon::author {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

inline float widen(float x) noexcept { return x; }
inline float widen(BF16 x) noexcept { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }
inline float widen(F16 x) noexcept {
  const uint32_t magnitude = static_cast<uint32_t>(x.bits & 0x7fff) << 13;
  // The exponent's bias grows by 112; multiplying also makes halves' subnormals normal.
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t special = magnitude | 0x7f800000;
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16;
  return std::bit_cast<float>(((x.bits & 0x7fff) >= 0x7c00 ? special : finite) | sign);
}

inline BF16 to_bf16(float x) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = u + 0x7fff + ((u >> 16) & 1), quiet = u | 0x400000;
  return {static_cast<uint16_t>(((u & 0x7fffffff) > 0x7f800000 ? quiet : rounded) >> 16)};
}
inline F16 to_f16(float x) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint32_t a = u & 0x7fffffff;
  const uint32_t special = a > 0x7f800000 ? 0x7e00u : 0x7c00u;
  // Adding 0.5 lines the subnormal's last bit up with the float's, and lets the addition round.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(a) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (a - (112u << 23) + 0xfff + ((a >> 13) & 1)) >> 13;
  const uint32_t magnitude = a >= 0x47800000 ? special : a < 0x38800000 ? subnormal : normal;
  return {static_cast<uint16_t>(magnitude | ((u >> 16) & 0x8000))};
}

}  // namespace tenon::author
