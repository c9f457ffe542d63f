// SPDX-License-Identifier: Apache-2.0
// footprint.hpp: which bytes a tensor or a strided box touches, as ranges.
//
// Invariant: exact or nothing. Two streams may work on alternate rows of one matrix, so a bounding range would accuse
// them falsely; a box of more than `max_rows` ranges has no footprint and is not judged.
#pragma once

#include "layers/hazards.hpp"

#include <tenon/fragment.h>
#include <tenon/stream.h>

#include <optional>
#include <span>
#include <vector>

namespace tenon::layers {

inline constexpr size_t max_rows = 4096;

// Bytes of a box from its first byte: sorted, disjoint, not touching each other; empty for an empty box.
struct Footprint {
  std::vector<Range> rows;
  uint64_t extent = 0;  // past the last byte
  bool exact = true;    // false: too many rows; `rows` is empty
};

// A box of cells of `cell` bytes; strides in bytes, 0 repeats. [any-thread; does not block; cannot fail]
Footprint footprint(std::span<const uint64_t> extents, std::span<const uint64_t> strides, uint64_t cell);

// What a binding of `tensor` touches. Empty optional: only the whole span is known (a private layout, an element type of
// less than a byte, an unknown one). [any-thread; does not block; cannot fail]
std::optional<Footprint> footprint(const tn_tensor& tensor);

// Whether two boxes at these offsets share a byte. [any-thread; does not block; cannot fail]
bool overlap(const Footprint& a, uint64_t a_begin, const Footprint& b, uint64_t b_begin);

}  // namespace tenon::layers
