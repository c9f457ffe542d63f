// SPDX-License-Identifier: Apache-2.0
// sequence.hpp: the gradients of a step in one row, which buckets are ranges of.
//
// Invariant: pieces of one gradient are neighbours, in order, and all but the last are multiples of the alignment.
#pragma once

#include <tenon/overlap.hpp>

#include <vector>

namespace tenon::overlap {

struct Piece {
  uint32_t gradient = 0;
  DType dtype = f32;
  uint64_t first = 0, bytes = 0;  // of the gradient
  uint64_t slot = 0;              // bytes, and the gap to the next slot
  bool last = true;               // the gradient ends with it
  double ready = 0, needed = 0;
};

// The order in which gradients are listed.
enum class Along : uint8_t {
  arrival,  // the last in the list first among those ready at the same time: backward comes from behind
  layers    // as listed, layers together
};

// Dense gradients only. Those of more than `partition` bytes are cut into pieces of it; 0: none is.
std::vector<Piece> sequence_of(const StepProfile& step, Along along, uint64_t alignment, uint64_t partition);

// What stands before the first dot.
std::string_view layer_of(const Gradient& gradient) noexcept;

// Ranges of a sequence: where each ends; the last is the size of the sequence.
using Cuts = std::vector<uint32_t>;

constexpr uint64_t rounded_up(uint64_t bytes, uint64_t to) noexcept { return (bytes + to - 1) / to * to; }

}  // namespace tenon::overlap
