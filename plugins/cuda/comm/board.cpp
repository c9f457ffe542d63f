// SPDX-License-Identifier: Apache-2.0
// board.cpp: slots, and how an exchange ends before its time.
//
// A kernel begins only when all are ready, and then looks whether its exchange stands. To call one off the host takes that word
// back first and looks who is ready after: whoever is not will find it taken back, so the others need not wait for it.
#include "board.hpp"

#include <algorithm>

namespace tenon::cuda::comm {

Lane::Lane(CUdeviceptr base, std::vector<uint32_t> members, uint32_t depth)
    : base_(base), members_(std::move(members)), depth_(depth), next_(members_.size(), 1) {}

bool Lane::all_ready(uint64_t index) const noexcept {
  for (uint32_t m = 0; m < size(); ++m)
    if (!is_ready(index, m)) return false;
  return true;
}

bool Lane::all_done(uint64_t index) const noexcept {
  for (uint32_t m = 0; m < size(); ++m)
    if (word(done(index, m)) < index) return false;
  return true;
}

void Lane::retire() {
  while (!entries_.empty() && entries_.front().come == size() && all_done(first_)) {
    entries_.pop_front();
    ++first_;
  }
}

uint64_t Lane::bring(uint32_t member, Part part) {
  const uint64_t index = next_[member]++;
  while (first_ + entries_.size() <= index)
    entries_.push_back({.parts = std::vector<std::optional<Part>>(size())});
  tell(index, member, part);
  Entry& entry = entries_[index - first_];
  entry.parts[member] = std::move(part);
  ++entry.come;
  return index;
}

void Lane::tell(uint64_t index, uint32_t member, const Part& part) noexcept {
  CUdeviceptr at = slot(index) + 8 * (1 + 2 * size() + member * (3 + size()));
  const auto put = [&](uint64_t value) {
    word(at).store(value, std::memory_order_relaxed);
    at += 8;
  };
  put(part.to);
  put(part.factor_at);
  put(std::bit_cast<uint64_t>(part.factor));
  for (uint32_t reader = 0; reader < size(); ++reader) put(part.block_for(reader));
}

void Lane::call_off(uint64_t index) noexcept {
  word(slot(index)).store(0);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (uint32_t m = 0; m < size(); ++m) {
    if (is_ready(index, m)) continue;
    word(done(index, m)).store(everybody_passes);
    word(ready(index, m)).store(everybody_passes);
  }
}

}  // namespace tenon::cuda::comm
