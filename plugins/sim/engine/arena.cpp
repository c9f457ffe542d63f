// SPDX-License-Identifier: Apache-2.0
// arena.cpp: first fit, so that a freed block is soon somebody else's.
#include "arena.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <cstring>

namespace tenon::sim {

using author::text;

namespace {

constexpr uint64_t unit = 256;               // of a block that the host may not touch
constexpr uint64_t garbage_up_to = 1 << 20;  // filling more would cost time and find nothing more
constexpr uint64_t dropped_from = 2 << 20;   // below it the pages are kept for the next block
constexpr uint64_t mark_every = 256 << 10;   // of what was dropped, so that not even zeros survive it
constexpr uint64_t mark_bytes = 64;

uint64_t rounded(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

}  // namespace

Result<std::unique_ptr<Arena>> Arena::make(uint64_t bytes) {
  driver::TwinPages pages = TN_TRY(driver::TwinPages::map(bytes));
  return std::unique_ptr<Arena>(new Arena(std::move(pages)));
}

uint64_t Arena::address(uint64_t offset) const noexcept {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pages_.outside())) + offset;
}

Status Arena::full(uint64_t bytes) const {
  uint64_t largest = 0;
  for (const auto& [offset, size] : free_) largest = std::max(largest, size);
  return Status(TN_NO_MEMORY, text("asked for ", bytes, " bytes; ", total() - used_, " of ", total(),
                                   " are free, the largest piece has ", largest, ": free some"));
}

std::map<uint64_t, uint64_t>::iterator Arena::gap_for(uint64_t bytes, uint64_t alignment, uint64_t& offset) {
  return std::ranges::find_if(free_, [&](const auto& gap) {
    offset = rounded(address(gap.first), alignment) - address(0);
    return offset - gap.first < gap.second && bytes <= gap.second - (offset - gap.first);
  });
}

Result<Arena::Block> Arena::take(uint64_t bytes, uint64_t alignment, bool exposed) {
  const std::lock_guard lock(mutex_);
  if (bytes > total()) return full(bytes);
  const uint64_t step = exposed ? driver::page_bytes : unit;
  Block block{.bytes = bytes, .room = rounded(std::max<uint64_t>(bytes, 1), step), .exposed = exposed};
  const auto gap = gap_for(block.room, std::max(alignment, step), block.offset);
  if (gap == free_.end()) return full(bytes);
  if (exposed) TN_TRY(pages_.expose(block.offset, block.room, true));
  const auto [begin, size] = *gap;
  free_.erase(gap);
  if (block.offset > begin) free_[begin] = block.offset - begin;
  const uint64_t end = block.offset + block.room;
  if (end < begin + size) free_[end] = begin + size - end;
  blocks_[block.offset] = block;
  used_ += block.room;
  std::memset(inside(block.offset), 0xD7, std::min(block.room, garbage_up_to));
  return block;
}

void Arena::give_back(const Block& block) noexcept {
  const std::lock_guard lock(mutex_);
  if (block.exposed) (void)pages_.expose(block.offset, block.room, false);
  scribble(inside(block.offset), block.room, std::byte{0xDF});  // whoever still uses it finds out
  blocks_.erase(block.offset);
  used_ -= block.room;
  auto gap = free_.emplace(block.offset, block.room).first;
  if (const auto next = std::next(gap); next != free_.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    free_.erase(next);
  }
  if (gap == free_.begin()) return;
  const auto before = std::prev(gap);
  if (before->first + before->second != gap->first) return;
  before->second += gap->second;
  free_.erase(gap);
}

// Touching much memory costs more than everything else that a small kernel does, so its pages go back to the machine.
void Arena::scribble(std::byte* at, uint64_t bytes, std::byte garbage) const noexcept {
  const auto fill = [&](std::byte* from, uint64_t count) {
    std::memset(from, std::to_integer<int>(garbage), count);
  };
  const bool elsewhere = at < inside(0) || at >= inside(0) + total();  // another device's, lent by a peer
  if (bytes < dropped_from || elsewhere) return fill(at, bytes);
  const auto offset = static_cast<uint64_t>(at - inside(0));
  const uint64_t end = offset + bytes, last = (end / driver::page_bytes - 1) * driver::page_bytes;
  const uint64_t first = rounded(offset + garbage_up_to, driver::page_bytes);
  fill(at, first - offset);
  pages_.drop(first, last - first);
  for (uint64_t mark = first; mark + mark_bytes <= last; mark += mark_every) fill(inside(mark), mark_bytes);
  fill(inside(last), end - last);
}

bool Arena::forbids(uint64_t address, uint64_t bytes) const {
  const uint64_t base = this->address(0);
  if (address + bytes <= base || address >= base + total()) return false;
  const std::lock_guard lock(mutex_);
  auto block = blocks_.upper_bound(address - base);
  if (address < base || block == blocks_.begin()) return true;
  --block;
  const uint64_t offset = address - base;
  return !block->second.exposed || offset + bytes > block->second.offset + block->second.bytes;
}

std::byte* Arena::find(uint64_t address, uint64_t bytes) const {
  const uint64_t base = this->address(0);
  if (address < base || address - base > total()) return nullptr;
  const std::lock_guard lock(mutex_);
  auto block = blocks_.upper_bound(address - base);
  if (block == blocks_.begin()) return nullptr;
  --block;
  const uint64_t inner = address - base - block->second.offset;
  if (inner > block->second.bytes || bytes > block->second.bytes - inner) return nullptr;
  return inside(address - base);
}

uint64_t Arena::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace tenon::sim
