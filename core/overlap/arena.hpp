// SPDX-License-Identifier: Apache-2.0
// arena.hpp: where each gradient of a row lives, so that buckets, which are ranges of the row, are ranges of memory.
//
// Invariant: slots are multiples of the alignment apart; a gradient's pieces touch each other, whatever bucket they are in.
#pragma once

#include "overlap/sequence.hpp"

#include <span>

namespace tenon::overlap {

struct Placed {
  std::vector<Bucket> buckets{};  // in the order of the row; members, views and needed_ns only
  Arena arena{};
  CommTail tail{};
};

// `shards` > 1: views are padded so that each rank's shard begins at a multiple of the alignment.
Placed place(std::span<const Piece> pieces, const Cuts& cuts, size_t gradients, uint64_t alignment,
             uint32_t shards, const CommTail& tail);

// Lets the tail ride in `bucket`: in its last view where that touches and may be summed as a whole, else as one more
// operation of the same group.
void add_tail(Bucket& bucket, const CommTail& tail);

// How the tail of `parameters` parameters is packed for `ranks` ranks; without a place yet.
CommTail tail_for(uint32_t ranks, uint32_t parameters);

}  // namespace tenon::overlap
