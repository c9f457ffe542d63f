// SPDX-License-Identifier: Apache-2.0
// board.hpp: words of pinned memory by which the streams of ranks wait for each other and their kernels find each other's memory.
//
// A lane is a row of exchanges between the same members: the collectives of all ranks, or the messages from one rank to another
// (member 0 sends, member 1 receives). Exchange number i lies in slot i mod depth: its index once it stands, a "ready" and a
// "done" of each member, then what each has told: where its result goes, where its factor is, what that is otherwise, and where it
// holds what each member reads (kernels/exchange.cuh).
// "Ready" and "done" are written by streams, everything else by the host.
// Invariant: a slot is used again only when all members are done with the exchange in it, so a late write of an older index
// never holds anybody up: who waits for index i lets every greater one pass.
#pragma once

#include "part.hpp"

#include <cuda.h>

#include <atomic>
#include <deque>
#include <optional>

namespace tenon::cuda::comm {

inline constexpr uint32_t most_ranks = 16;  // as kernels/device.hpp and ranks.cuh have it

// What an exchange is on the host, until all are done with it.
struct Entry {
  std::vector<std::optional<Part>> parts{};  // of each member, once it has come
  uint64_t awaited_since_ns = 0;             // when somebody was first seen ready, and not all
  uint32_t come = 0;
};

class Lane {
 public:
  // At `base`, which has been zeroed.
  Lane(CUdeviceptr base, std::vector<uint32_t> members, uint32_t depth);
  static uint64_t bytes(uint32_t members, uint32_t depth) noexcept { return 8 * depth * words(members); }

  const std::vector<uint32_t>& members() const noexcept { return members_; }  // their ranks
  uint32_t size() const noexcept { return static_cast<uint32_t>(members_.size()); }
  uint32_t depth() const noexcept { return depth_; }
  CUdeviceptr slot(uint64_t index) const noexcept { return base_ + 8 * (index % depth_) * words(size()); }
  CUdeviceptr ready(uint64_t index, uint32_t member) const noexcept { return slot(index) + 8 * (1 + member); }
  CUdeviceptr done(uint64_t index, uint32_t member) const noexcept {
    return slot(index) + 8 * (1 + size() + member);
  }
  bool is_ready(uint64_t index, uint32_t member) const noexcept {
    return word(ready(index, member)) >= index;
  }
  bool all_ready(uint64_t index) const noexcept;

  // The exchanges that are going on, by index from first() on.
  uint64_t first() const noexcept { return first_; }
  const std::deque<Entry>& entries() const noexcept { return entries_; }
  std::deque<Entry>& entries() noexcept { return entries_; }
  // Forgets those at the front that all are done with.
  void retire();
  // Whether `member` may bring `count` more.
  bool has_room(uint32_t member, uint64_t count) const noexcept {
    return next_[member] + count <= first_ + depth_;
  }

  // The next part of `member`: puts what the others need into the slot. The index it got.
  uint64_t bring(uint32_t member, Part part);
  // Takes it as agreed: kernels may begin once all are ready.
  void stand(uint64_t index) noexcept { word(slot(index)).store(index); }
  // Whether kernels may be at it: it ends by itself.
  bool runs(uint64_t index) const noexcept { return all_ready(index) && word(slot(index)) == index; }
  // Lets go those who wait for it; their streams may end at once.
  void call_off(uint64_t index) noexcept;

 private:
  using Word = std::atomic_ref<uint64_t>;
  static constexpr uint64_t everybody_passes = uint64_t{1} << 62;
  static uint64_t words(uint64_t members) noexcept { return 1 + 2 * members + members * (3 + members); }
  static Word word(CUdeviceptr address) noexcept {
    return Word(*reinterpret_cast<uint64_t*>(static_cast<uintptr_t>(address)));
  }
  bool all_done(uint64_t index) const noexcept;
  void tell(uint64_t index, uint32_t member, const Part& part) noexcept;

  CUdeviceptr base_;
  std::vector<uint32_t> members_;
  uint32_t depth_;
  uint64_t first_ = 1;
  std::vector<uint64_t> next_;  // of each member
  std::deque<Entry> entries_{};
};

}  // namespace tenon::cuda::comm
