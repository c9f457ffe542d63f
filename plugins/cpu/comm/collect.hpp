// SPDX-License-Identifier: Apache-2.0
// collect.hpp: the collectives of one group, from its announcement to the last byte.
//
// Every rank lays its cards on its board and finishes a step; then each compares all cards with its own, which is the order
// check. Three ways carry the data:
//
//   eager   little data lies on the boards beside the cards, so one step is all
//   direct  all buffers can be reached: each rank reduces its slice from their owners' pages and writes it to all of
//           them, or takes what it wants from where it lies; two steps
//   staged  what cannot be reached goes through each rank's stage, a piece at a time
//
// Invariant: which way is taken follows from the boards alone, so all ranks take the same; the result is the same in all.
#pragma once

#include "atlas.hpp"
#include "group.hpp"

namespace tenon::cpu::comm {

class Collector {
 public:
  Collector(Member& member, Atlas& atlas);

  // TN_MISMATCH names both sides; else as Member::wait. `freed` is for Board::freed. [one thread; blocks; may fail]
  Status run(std::span<const Operation> operations, uint64_t sequence, uint32_t freed);

 private:
  // A run of elements of each block of one operation, and where everyone's contribution to it lies.
  struct Part {
    uint64_t first, count;  // elements of a block
    uint64_t stride;        // bytes from one block of a contribution to the next
  };

  uint64_t announce(std::span<const Operation> operations, uint64_t sequence, uint32_t freed);
  Status check_order();
  Status compare(uint32_t rank, const Board& theirs, const Board& ours);
  bool all_reachable();
  uint64_t blocks(const Operation& operation) const noexcept;
  void gather_factors(const Operation& operation, uint32_t index);

  Status run_eager(std::span<const Operation> operations);
  Status run_direct(std::span<const Operation> operations);
  Status run_staged(const Operation& operation);
  Status stage_slices(const Operation& operation, const Part& part);
  Status push_slice(const Operation& operation, uint32_t index);
  void fill_stage(const Operation& operation, const Part& part, std::byte* stage);

  // This rank's share, out of sources_. False when the group was given up.
  bool deliver(const Operation& operation, const Part& part);
  bool copy(std::byte* to, const std::byte* from, uint64_t bytes);
  bool reduce(const Operation& operation, uint64_t skip_bytes, uint64_t count,
              std::span<std::byte* const> outs);
  Status ended(bool well) { return well ? Status() : member_.failure(); }

  Member& member_;
  Atlas& atlas_;
  const uint32_t rank_, size_;
  uint32_t turn_ = 0;   // of boards
  uint32_t stage_ = 0;  // of stages
  std::vector<const std::byte*> sources_, moved_sources_;
  std::vector<std::byte*> outs_, moved_outs_;
  std::vector<uint64_t> factors_;
};

}  // namespace tenon::cpu::comm
