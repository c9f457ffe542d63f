// SPDX-License-Identifier: Apache-2.0
// half.hpp: halves as author/half.hpp has them, and how a wider number becomes one with a single rounding.
#pragma once

#include <tenon/author/half.hpp>

#include <bit>
#include <cmath>
#include <cstdint>

namespace tenon::cpu {

using author::BF16;
using author::F16;
using author::to_bf16;
using author::to_f16;
using author::widen;

// The nearest f32 whose last bit tells of any bits dropped ("round to odd"): rounding it again, to a half, gives what one
// rounding of the original gives.
inline float to_odd(double x) noexcept {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || std::isnan(x)) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(x)) --bits;
  return std::bit_cast<float>(bits | 1);
}
// The same for a whole number: its top 24 bits, the last of which tells of any dropped.
inline float to_odd(uint64_t x) noexcept {
  const int drop = 40 - std::countl_zero(x | 1);
  if (drop <= 0) return static_cast<float>(x);
  const uint64_t kept = x >> drop;
  return std::ldexp(static_cast<float>(kept | ((kept << drop) != x ? 1 : 0)), drop);
}
inline float to_odd(int64_t x) noexcept {
  const uint64_t magnitude = x < 0 ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  return x < 0 ? -to_odd(magnitude) : to_odd(magnitude);
}

}  // namespace tenon::cpu
