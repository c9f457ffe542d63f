// SPDX-License-Identifier: Apache-2.0
// rules.hpp: how buckets are cut elsewhere, as rules over the same row of gradients.
#pragma once

#include "overlap/sequence.hpp"

#include <span>

namespace tenon::overlap {

// A bucket closes when it has `first` bytes, later ones when they have `then`: floors, which the last gradient overshoots.
Cuts floors(std::span<const Piece> pieces, uint64_t first, uint64_t then);

// Whole layers, in a row made along layers: a group closes when it has `bytes`, or more than `most` gradients.
Cuts groups_of_layers(std::span<const Piece> pieces, std::span<const Gradient> gradients, uint64_t bytes,
                      uint32_t most);

// MG-WFBP: a gradient is sent with the next when the next arrives before its own collective is over, and while that one
// still waits for the link or would wait less than a latency.
Cuts merged_gradually(std::span<const Piece> pieces, const CostTable& cost);

Cuts one_each(std::span<const Piece> pieces);
Cuts all_in_one(std::span<const Piece> pieces);

}  // namespace tenon::overlap
