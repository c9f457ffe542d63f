// SPDX-License-Identifier: Apache-2.0
// extent.hpp: how many elements and bytes a tensor takes.
//
// Invariant: no sum or product wraps around; what does not fit in 63 bits is flagged and saturates.
#pragma once

#include <tenon/fragment.h>

#include <cstdint>
#include <span>

namespace tenon::base {

struct Extent {
  uint64_t elements = 1;
  uint64_t bytes = 0;      // from the first to past the last element, sub-byte types packed
  bool too_large = false;  // more than 2^63-1 elements or bytes
};

// Of dims and strides (in elements; empty: dense) with elements of `bits`. Negative dims or strides count as too large.
// [any-thread; does not block; cannot fail]
Extent extent_of(std::span<const int64_t> dims, std::span<const int64_t> strides, uint32_t bits) noexcept;
// [any-thread; does not block; cannot fail]
Extent extent_of(const tn_tensor& tensor) noexcept;
// The product of `dims`, saturating. [any-thread; does not block; cannot fail]
uint64_t element_count(std::span<const int64_t> dims) noexcept;
// Bytes of `elements` elements of `bits`, rounded up, saturating. [any-thread; does not block; cannot fail]
uint64_t packed_bytes(uint64_t elements, uint32_t bits) noexcept;

}  // namespace tenon::base
