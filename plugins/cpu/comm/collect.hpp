// SPDX-License-Identifier: Apache-2.0
// collect.hpp: the collectives of one group, from its announcement to the last byte.
//
// Every rank lays its cards on its board and finishes a step; then each compares all cards with its own, which is the order
// check. One collective of a few bytes lies beside the step itself. Four ways carry the data:
//
//   eager   little data lies with the cards, so one step is all
//   direct  all buffers can be reached: each rank reduces its slice from their owners' pages and writes it to all of
//           them, or takes what it wants from where it lies; two steps
//   fetched what has no address in other processes, and is read by them quickly: each rank reads what it needs; two steps, for
//           sums of all three
//   staged  what is not reached either way goes through each rank's stages, a piece at a time
//
// Between hosts it is eager or staged: what the others of a host would read of a rank's board or stage is sent there first
// (cross.cpp), so everything after that is the same. Contributions of the pieces that come next are on their way meanwhile.
// Invariant: which way is taken follows from what all ranks brought and found out when they joined, so all take the same; the result is
// the same in all.
#pragma once

#include "atlas.hpp"
#include "bridge.hpp"
#include "group.hpp"

#include <algorithm>
#include <deque>
#include <optional>

namespace tenon::cpu::comm {

// The elements of `count` that are `rank`'s to reduce: whole cache lines, but for the last.
struct Slice {
  Slice(uint64_t count, uint64_t width, uint32_t rank, uint32_t size) noexcept {
    const uint64_t unit = std::max<uint64_t>(1, 64 / width);
    const uint64_t each = (count / size + (count % size != 0 ? 1 : 0) + unit - 1) / unit * unit;
    begin = std::min(count, each * rank);
    end = std::min(count, begin + each);
  }
  uint64_t begin, end;
};

// What one rank brings to a group, beside its step or on its board.
class Brought {
 public:
  Brought(const Step& step, const Board& board) noexcept
      : step_(step.noted != 0 ? &step : nullptr), board_(board) {}
  uint64_t sequence() const noexcept { return step_ != nullptr ? step_->sequence : board_.sequence; }
  uint32_t count() const noexcept { return step_ != nullptr ? 1 : board_.count; }
  const Terms& terms(uint32_t i) const noexcept {
    return step_ != nullptr ? step_->terms : board_.cards()[i];
  }
  const std::byte* data() const noexcept { return step_ != nullptr ? step_->data : board_.data(); }

 private:
  const Step* step_;
  const Board& board_;
};

// A group of one all-reduce of a few bytes without a factor, or of a barrier.
struct Brief {
  // Nothing for any other group, and for whatever make_group refuses. `address_of`: as of Maker.
  // [any-thread; does not block; cannot fail]
  static std::optional<Brief> of(const tn_comm_op& op,
                                 std::byte* (*address_of)(const tn_span& span)) noexcept;

  Terms terms{};
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  uint64_t bytes = 0;
  ReduceRow row = nullptr;
};

class Collector {
 public:
  // `bridge`: to ranks on other hosts; nullptr when there are none.
  Collector(Member& member, Atlas& atlas, Bridge* bridge);

  // TN_MISMATCH names both sides; else as Member::wait. [one thread; blocks; may fail]
  Status run(std::span<const Operation> operations, uint64_t sequence) {
    begin(operations, sequence);
    return finish(operations);
  }
  // The same in its parts, for who would not wait: the announcement; then `advance` whenever all mates have finished the step
  // before, until it says that the group has ended; `finish` from anywhere. [one thread; none but finish blocks while
  // may_advance(); may fail]
  void begin(std::span<const Operation> operations, uint64_t sequence);
  Result<bool> advance(std::span<const Operation> operations);
  Status finish(std::span<const Operation> operations);
  // The same of a brief one, when all mates have finished its step: false where some brought something else, and `advance` says what.
  // Only where takes_briefs(). [one thread; does not block; cannot fail]
  void begin(const Brief& brief, uint64_t sequence);
  bool end(const Brief& brief);
  bool takes_briefs() const noexcept { return bridge_ == nullptr; }
  // What comes next waits for nobody.
  bool may_advance() const noexcept { return bridge_ == nullptr && (phase_ == 0 || way_ != Way::staged); }
  // Whether a group of these operations may touch memory of other ranks, or else the segment alone.
  bool reaches_others(std::span<const Operation> operations) const noexcept {
    return bridge_ != nullptr || bytes_brought(operations) > Board::eager_bytes;
  }
  // What a rank brings, and no other host has a part in it.
  bool is_small(std::span<const Operation> operations, uint64_t most_bytes) const noexcept;

 private:
  enum class Way { eager, direct, fetched, staged };
  // A run of elements of each block of one operation, and where everyone's contribution to it lies.
  struct Part {
    uint64_t first, count;  // elements of a block
    uint64_t stride;        // bytes from one block of a contribution to the next
    uint32_t turn = 0;      // of the stages where it lies, where it is staged
  };

  uint64_t bytes_brought(std::span<const Operation> operations) const noexcept;
  bool fits_step(std::span<const Operation> operations) const noexcept;
  void fill_board(std::span<const Operation> operations, uint64_t sequence) noexcept;
  Brought brought_by(uint32_t rank) noexcept {
    return {member_.step_of(rank), member_.segment().board(rank, turn_)};
  }
  Way choose(std::span<const Operation> operations);
  Status check_order();
  Status compare(uint32_t rank, const Brought& theirs, const Brought& ours);
  bool all_reachable();
  uint64_t blocks(const Operation& operation) const noexcept;
  void gather_factors(const Operation& operation, uint32_t index);

  Status run_eager(std::span<const Operation> operations);
  Status run_direct(std::span<const Operation> operations);
  // Each is one step of the fetched way.
  Status run_fetched(std::span<const Operation> operations);
  Status take_results(std::span<const Operation> operations);
  Status run_staged(std::span<const Operation> operations);
  bool fetch(const Operation& operation, uint32_t index);
  bool fetch_sum(const Operation& operation, uint32_t index, uint64_t skip_bytes, uint64_t count,
                 std::byte* to);
  bool fetch_results(const Operation& operation, uint32_t index);
  Status pass_stages(const Operation& operation);
  Status arrived(std::deque<Bridge::Transfers>& first);
  Status deliver_piece(const Operation& operation, const Part& part);
  Status sum_slice(const Operation& operation, const Part& part);
  Status collect_slices(const Operation& operation, const Part& part);
  void find_stages(const Part& part);
  Status push_slice(const Operation& operation, uint32_t index);
  void fill_stage(const Operation& operation, const Part& part, std::byte* stage);
  // A piece's contributions begin: they lie on this rank's stage, and those of other hosts are on their way.
  Status begin_part(const Operation& operation, const Part& part);
  std::byte* stage(uint32_t rank, uint32_t turn) noexcept {
    return member_.segment().stage(rank, turn, stages_);
  }

  static bool is_sum(const Operation& operation) noexcept {
    return operation.kind == TN_COMM_ALL_REDUCE || operation.kind == TN_COMM_REDUCE;
  }
  // Where the sums of `rank`'s slice of a piece are made, or come to.
  std::byte* sums_of(const Operation& operation, const Part& part, uint32_t rank) noexcept {
    return alone_ && operation.recv != nullptr ? operation.recv + part.first * operation.width
                                               : stage(rank, part.turn);
  }

  // What others need of this rank's board or stage goes to their hosts, and what this host needs of theirs comes.
  Status cross_boards(uint64_t data_bytes);
  Status cross_contributions(const Operation& operation, const Part& part);
  Status cross_results(const Operation& operation, const Part& part);
  void leave(uint32_t rank, const std::byte* mine, uint64_t bytes) {
    if (bytes != 0) leaving_.push_back({rank, mine, bytes});
  }
  void come(uint32_t rank, std::byte* theirs, uint64_t bytes) {
    if (bytes != 0) coming_.push_back({rank, theirs, bytes});
  }
  void leave_for_hosts(const std::byte* mine, uint64_t bytes);
  bool receives_for_host(uint32_t rank) const noexcept;
  Status begin_crossing(Bridge::Transfers& transfers);

  // This rank's share, out of sources_. False when the group was given up.
  bool deliver(const Operation& operation, const Part& part);
  bool copy(std::byte* to, const std::byte* from, uint64_t bytes);
  bool reduce(const Operation& operation, uint64_t skip_bytes, uint64_t count,
              std::span<std::byte* const> outs);
  Status ended(bool well) { return well ? Status() : member_.failure(); }

  Member& member_;
  Atlas& atlas_;
  Bridge* const bridge_;
  const uint32_t rank_, size_;
  uint32_t phase_ = 0;    // how often the group that has begun was advanced
  Way way_ = Way::eager;  // from its first phase on
  uint32_t turn_ = 0;     // of boards
  uint64_t brought_ = 0;  // bytes that the boards of the group that has begun would have to hold
  uint32_t stage_ = 0;    // of stages
  const Stages& stages_;  // a part for each piece of which a rank holds contributions or sums
  const bool alone_;      // on its host, and there are others
  // Of the pieces begun, in their order: contributions, and sums.
  std::deque<Bridge::Transfers> under_way_{}, results_{};
  std::vector<const std::byte*> sources_, moved_sources_;
  std::vector<std::byte*> outs_, moved_outs_;
  std::vector<uint64_t> factors_;
  std::vector<std::byte> fetched_;  // a piece of each other rank's
  std::vector<Bridge::Leaving> leaving_;
  std::vector<Bridge::Coming> coming_;
};

}  // namespace tenon::cpu::comm
