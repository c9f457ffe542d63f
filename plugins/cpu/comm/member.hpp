// SPDX-License-Identifier: Apache-2.0
// member.hpp: one rank's part in a segment: its steps, waiting for those of others, and failing together. Its mates are the
// ranks that share the segment, itself among them: all, or those on its host.
//
// A rank counts its steps in its slot; whoever needs a step of another spins on that count, then sleeps on its own bell,
// which whoever finishes a step rings if its owner sleeps.
// Invariant: a wait ends when it is met, when any rank has failed, when an awaited rank is gone or waits for this one, or
// `timeout` after the last sign of life of those it needs; the first failure is the failure of all ranks.
#pragma once

#include "segment.hpp"

#include <tenon/comm.h>

#include <string>
#include <vector>

namespace tenon::cpu::comm {

class Member;

// How often a sleeper looks whether the others live; a lost one is found within this time.
inline constexpr uint64_t look_ns = 20'000'000;
// Long work is cut into pieces of so many bytes, and between two of them the rank shows that it lives.
inline constexpr uint64_t piece = 256 << 10;
// Of so many bytes stages do not stay in a processor's own caches, and cost as much again as what is copied through them.
inline constexpr uint64_t past_caches = 2 << 20;

// What a rank waits for.
class Condition {
 public:
  virtual ~Condition() = default;
  // Asked again and again by the waiting thread; may do a piece of work.
  virtual bool met() = 0;
  // Whether it cannot be met without `rank`.
  virtual bool awaits(uint32_t rank) const = 0;
  // Work that goes on while this thread waits for something else.
  virtual bool advance() { return met(); }
};

class Member {
 public:
  Member(std::shared_ptr<Segment> segment, uint32_t rank, uint64_t timeout_ns, std::string name);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  // Others that wait for this rank are told that it is gone.
  ~Member();

  uint32_t rank() const noexcept { return rank_; }
  uint32_t size() const noexcept { return size_; }
  Segment& segment() noexcept { return *segment_; }
  Slot& slot(uint32_t rank) noexcept { return segment_->slot(rank); }
  // The ranks on this host, in order.
  const std::vector<uint32_t>& mates() const noexcept { return mates_; }
  bool is_here(uint32_t rank) const noexcept { return peers_[rank].abroad.empty(); }
  bool same_process(uint32_t rank) noexcept { return peers_[rank].process == process_; }
  int32_t process_of(uint32_t rank) const noexcept { return peers_[rank].process; }
  // The end of each mate's process can be waited for; else it has to be asked for. Once they have met.
  bool watches_all() const noexcept { return watches_all_; }
  // All mates are threads of this process.
  bool one_process() const noexcept { return one_process_; }
  // Each mate can open shared memory of each other.
  bool open() const noexcept { return open_; }
  // Each mate can read all memory of each other.
  bool readable() const noexcept { return readable_; }
  // And reading so many bytes is quicker, for all of them, than copying them through the stages.
  bool quickly_readable(uint64_t bytes) const noexcept { return bytes >= read_from_; }

  // Takes the rank's slot; `memory` is the segment's own, for others to try. TN_INVALID when it is taken.
  // [one thread, once; does not block; may fail]
  Status arrive(const system::Fd& memory);
  // `abroad` has, for each rank on another host, what to call it; "" for mates. Before `meet`.
  // [one thread, once; does not block; cannot fail]
  void keep_to_mates(const std::vector<std::string>& abroad);
  // Knows who the others are, and how to tell that they ended. Once, when all have arrived. TN_PEER_LOST.
  // [one thread; does not block; may fail]
  Status meet();
  // Says that this rank has looked at all others. [one thread, once; does not block; cannot fail]
  void settle() noexcept;
  // The processors that the mates may use. Once they have met. [one thread; does not block; cannot fail]
  system::Processors processors() noexcept;
  // Knows what only shows when all have settled; `ranks`: how many are known to share those processors, the mates among them.
  // [one thread, once; does not block; cannot fail]
  void look_around(size_t ranks) noexcept;

  // --- the thread that runs groups ---
  // From here to `leave` this rank is in a group. `freed`: how often this process has given shared memory back; `reaches`: it may
  // touch memory of others, not only the segment's. The failure, when there is one.
  Status enter(uint32_t freed, bool reaches);
  // After a failure it also waits until nobody touches this rank's memory any more. [blocks; cannot fail]
  void leave() noexcept;
  // The group that is being done, by the kind of its first operation.
  void doing(uint64_t sequence, uint32_t kind) noexcept {
    sequence_ = sequence;
    kind_ = kind;
  }
  // Whether it is waiting for messages. [the thread that runs groups]
  bool in_messages() const noexcept { return kind_ == TN_COMM_SEND || kind_ == TN_COMM_RECV; }
  // The step that comes next, for a group that is to lie beside it; and the last one of `rank`, when it has been waited for.
  Step& next_step() noexcept { return slot(rank_).steps[(epoch_ + 1) % 2]; }
  const Step& step_of(uint32_t rank) noexcept { return slot(rank).steps[epoch_ % 2]; }
  // Finishes a step: what was written before is visible to whoever sees it. `noted`: a group lies beside it.
  void post(bool noted = false) noexcept;
  // Waits until all others have finished as many steps. [blocks; may fail]
  Status wait_all();
  // The same for a moment: false when they have not by then. [does not block; cannot fail]
  bool all_are_here() noexcept;
  Status step() {
    post();
    return wait_all();
  }
  // [blocks; may fail]
  Status wait(Condition& condition);
  // What goes on during waits for steps; nullptr: nothing.
  void meanwhile(Condition* work) noexcept { meanwhile_ = work; }
  // After each piece of long work: tells the others so. False when it is to be given up.
  bool goes_on() noexcept {
    slot(rank_).beat.fetch_add(1, std::memory_order_relaxed);
    return !failed();
  }
  // The same, and does what goes on during waits; for waits that are not for steps.
  bool carry_on() {
    if (meanwhile_ != nullptr) (void)meanwhile_->advance();
    return goes_on();
  }
  // After a store that `rank` may be waiting for, sequentially consistent or followed by a fence: wakes it if it sleeps.
  void tell(uint32_t rank) noexcept;

  // --- any thread ---
  bool failed() noexcept { return segment_->header().failure.code.load(std::memory_order_seq_cst) != 0; }
  // Why, in this rank's words. Only after failed().
  Status failure();
  // Makes this the failure of all ranks, unless there is one already; returns the one there is.
  // [any-thread; does not block; fails]
  Status fail(int32_t code, const std::string& words);
  // Whether `rank` has ended or destroyed its communicator. [any-thread; does not block; cannot fail]
  bool lost(uint32_t rank) noexcept;
  std::string in_words(uint32_t rank) const;
  // "group 7 (all_reduce)". [the thread that runs groups]
  std::string doing_in_words() const;
  uint64_t timeout() const noexcept { return timeout_; }

 private:
  class Everyone;
  class Vigil;
  struct Peer {
    int32_t process = 0;
    system::Fd watched{};
    std::string abroad{};    // "process 12 on host b"; "": a mate
    bool neighbour = false;  // may run where this rank may
  };

  Status sleep(Condition& condition);
  void ring(uint32_t rank) noexcept;

  const std::shared_ptr<Segment> segment_;
  const uint32_t rank_, size_;
  const uint64_t timeout_;
  const std::string name_;
  const int32_t process_;
  std::vector<Peer> peers_;
  std::vector<uint32_t> mates_;
  bool arrived_ = false, watches_all_ = true, one_process_ = false, open_ = false, readable_ = false,
       crowded_ = true, reaches_ = false, unfenced_ = true;
  uint64_t read_from_ = UINT64_MAX;
  uint32_t epoch_ = 0, freed_ = 0;
  Condition* meanwhile_ = nullptr;
  uint64_t sequence_ = 0;
  uint32_t kind_ = 0;
  uint32_t deeds_ = 0;  // how often others were told
};

}  // namespace tenon::cpu::comm
