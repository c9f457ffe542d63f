// SPDX-License-Identifier: Apache-2.0
// central.cpp: splitting and joining; see central.hpp.
#include "runtime/pool/central.hpp"

#include <algorithm>

namespace tenon::runtime {

void Central::insert(Block* block) {
  block->central = true;
  block->cache = nullptr;
  free_bytes_ += block->bytes;
  free_of(*block->segment).insert(place_of(block));
}

void Central::erase(Block* block) {
  free_of(*block->segment).erase(place_of(block));
  free_bytes_ -= block->bytes;
  block->central = false;
}

void Central::adopt(tn_memory* memory, uint64_t bytes, bool small) {
  const uint64_t serial = next_serial_++;
  Segment& segment = segments_[serial];
  segment =
      Segment{.memory = memory, .bytes = bytes, .serial = serial, .small = small, .first = blocks_.make()};
  by_memory_.emplace(memory, serial);
  Block* block = segment.first;
  block->memory = memory;
  block->offset = 0;
  block->bytes = bytes;
  block->segment = &segment;
  block->before = block->after = nullptr;
  insert(block);
}

Block* Central::take(uint64_t bytes, bool small) {
  Free& free = free_[small ? 1 : 0];
  const auto found = free.lower_bound(Place{bytes, 0, 0, nullptr});
  if (found == free.end()) return nullptr;
  Block* block = found->block;
  erase(block);
  if (block->bytes == bytes) return block;
  Block* rest = blocks_.make();
  rest->memory = block->memory;
  rest->offset = block->offset + bytes;
  rest->bytes = block->bytes - bytes;
  rest->segment = block->segment;
  rest->before = block;
  rest->after = block->after;
  if (rest->after != nullptr) rest->after->before = rest;
  block->after = rest;
  block->bytes = bytes;
  insert(rest);
  return block;
}

// Makes `after`, the right neighbour, part of `block`.
void Central::absorb(Block* block, Block* after) {
  block->bytes += after->bytes;
  block->after = after->after;
  if (block->after != nullptr) block->after->before = block;
  blocks_.give(after);
}

void Central::give(Block* block) {
  if (Block* after = block->after; after != nullptr && after->central) {
    erase(after);
    absorb(block, after);
  }
  if (Block* before = block->before; before != nullptr && before->central) {
    erase(before);
    absorb(before, block);
    block = before;
  }
  insert(block);
}

Segment Central::remove(Segment& segment) {
  Segment gone = segment;
  for (Block* block = segment.first; block != nullptr;) {
    Block* after = block->after;
    if (block->central) erase(block);
    blocks_.give(block);
    block = after;
  }
  by_memory_.erase(gone.memory);
  segments_.erase(gone.serial);
  gone.first = nullptr;
  return gone;
}

Segment Central::remove_free() {
  Segment* best = nullptr;
  for (auto& [serial, segment] : segments_) {
    const bool whole = segment.first->central && segment.first->after == nullptr;
    if (whole && (best == nullptr || segment.bytes > best->bytes)) best = &segment;
  }
  return best != nullptr ? remove(*best) : Segment{};
}

Segment Central::remove_any() { return segments_.empty() ? Segment{} : remove(segments_.begin()->second); }

uint64_t Central::largest_free() const {
  uint64_t largest = 0;
  for (const auto& [serial, segment] : segments_) {
    uint64_t run = 0;
    for (const Block* block = segment.first; block != nullptr; block = block->after) {
      run = block->asked.load(std::memory_order_relaxed) == 0 ? run + block->bytes : 0;
      largest = std::max(largest, run);
    }
  }
  return largest;
}

}  // namespace tenon::runtime
