// SPDX-License-Identifier: Apache-2.0
// central.hpp: segments and their free blocks that belong to no stream.
//
// Invariant: no two neighbouring blocks are both central; best fit, lowest address first. Externally locked.
#pragma once

#include "runtime/pool/block.hpp"

#include <map>
#include <set>
#include <unordered_map>

namespace tenon::runtime {

class Central {
 public:
  // Adds a fresh segment, free as a whole.
  void adopt(tn_memory* memory, uint64_t bytes, bool small);
  // A block of exactly `bytes` from a segment of that sort, or nullptr.
  Block* take(uint64_t bytes, bool small);
  // Takes a block back and joins it with its free neighbours.
  void give(Block* block);
  // Removes a segment that is free as a whole, the largest first; an empty one when there is none.
  Segment remove_free();
  // Removes every segment, free or not.
  Segment remove_any();

  // Every block, wherever it is.
  template <class Visit>
  void each(Visit visit) const {
    for (const auto& [serial, segment] : segments_)
      for (Block* block = segment.first; block != nullptr; block = block->after) visit(*block);
  }
  bool owns(const tn_memory* memory) const { return by_memory_.count(memory) != 0; }
  // The longest run of bytes that are in no Buffer, whoever's cache they are in.
  uint64_t largest_free() const;
  // Blocks live as long as this store.
  uint64_t free_bytes() const noexcept { return free_bytes_; }

 private:
  struct Place {
    uint64_t bytes, serial, offset;
    Block* block;
    auto operator<=>(const Place&) const = default;
  };
  using Free = std::set<Place>;

  static Place place_of(Block* block) noexcept {
    return {block->bytes, block->segment->serial, block->offset, block};
  }
  Free& free_of(const Segment& segment) noexcept { return free_[segment.small ? 1 : 0]; }
  void insert(Block* block);
  void erase(Block* block);
  void absorb(Block* block, Block* after);
  Segment remove(Segment& segment);

  Free free_[2];  // large, small
  std::map<uint64_t, Segment> segments_;
  std::unordered_map<const tn_memory*, uint64_t> by_memory_;
  Slab<Block> blocks_;
  uint64_t next_serial_ = 0;
  uint64_t free_bytes_ = 0;
};

}  // namespace tenon::runtime
