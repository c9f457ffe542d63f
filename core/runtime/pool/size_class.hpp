// SPDX-License-Identifier: Apache-2.0
// size_class.hpp: how requests are rounded, so that a freed block fits the next request of about its size.
//
// Invariant: sizes are multiples of the granule (the alignment every block keeps); eight classes per power of two, so at
// most an eighth is lost. Past `exact_from` sizes are rounded to whole pages only, and a class holds blocks of several.
#pragma once

#include <bit>
#include <cstdint>

namespace tenon::runtime {

inline constexpr uint64_t pool_page = 2u << 20;      // segments are multiples of it
inline constexpr uint64_t small_limit = 512u << 10;  // up to here blocks are cut from segments of one page
inline constexpr uint64_t exact_from = 32u << 20;
inline constexpr uint64_t largest_request = 1ull << 48;  // more than any device has
inline constexpr uint32_t size_classes = 304;

inline constexpr uint64_t round_up(uint64_t value, uint64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

struct SizeClass {
  uint64_t bytes;
  uint32_t index;
};

class Sizes {
 public:
  // `granule` is a power of two, at least 256.
  explicit Sizes(uint64_t granule) noexcept : shift_(static_cast<uint32_t>(std::countr_zero(granule))) {}

  // The class of a request of 1 … largest_request bytes. [any-thread; does not block; cannot fail]
  SizeClass of(uint64_t asked) const noexcept {
    if (asked > exact_from) [[unlikely]]
      return large(asked);
    const uint64_t last = (asked - 1) >> shift_;  // units - 1
    if (last < 16) return {(last + 1) << shift_, static_cast<uint32_t>(last)};
    const uint32_t power = static_cast<uint32_t>(std::bit_width(last)) - 1;
    const uint64_t step = (last >> (power - 3)) - 8;  // 0 … 7
    return {(step + 9) << (power - 3 + shift_), static_cast<uint32_t>(16 + (power - 4) * 8 + step)};
  }
  uint64_t granule() const noexcept { return 1ull << shift_; }

 private:
  SizeClass large(uint64_t asked) const noexcept {
    const uint64_t bytes = round_up(asked, pool_page > granule() ? pool_page : granule());
    const uint64_t last = (bytes - 1) >> shift_;
    if (last < 16) return {bytes, static_cast<uint32_t>(last)};
    const uint32_t power = static_cast<uint32_t>(std::bit_width(last)) - 1;
    return {bytes, static_cast<uint32_t>(16 + (power - 4) * 8 + ((last >> (power - 3)) - 8))};
  }
  uint32_t shift_;
};

}  // namespace tenon::runtime
