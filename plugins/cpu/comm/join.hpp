// SPDX-License-Identifier: Apache-2.0
// join.hpp: how ranks find the segment of their communicator, and each other.
//
// An id names a memory without a name: a descriptor in the process that made the id. Whoever comes first gives it its size
// and its pages, all take their slots, look at each other, and start when everyone has. A bridge adds pages.
// A rank that finds the id to be of another host says so in the store. Then all tell where they are, each host has a segment
// of its own, and bridges lie between them. When all are on one host the store is not written.
// Invariant: `join` succeeds on all ranks, or fails on all that are still there, within the timeout.
#pragma once

#include "bridge.hpp"
#include "hosts.hpp"
#include "member.hpp"

#include <map>
#include <mutex>

namespace tenon::cpu::comm {

struct Id {
  static constexpr std::array<char, 8> mark{'t', 'n', 'c', 'p', 'u', 'i', 'd', '3'};
  std::array<char, 8> magic = mark;
  system::Place place{};
  uint64_t inode = 0, nonce = 0;
  int32_t process = 0, descriptor = -1;
};

struct Ticket {
  Id id{};
  uint32_t rank = 0, size = 1;
  uint64_t timeout_ns = 0;
  std::string name{};
  const tn_store* store = nullptr;               // borrowed until the join has ended; nullptr: one host it is
  const std::atomic<bool>* cancelled = nullptr;  // set: the join ends with TN_ABORTED
};

// A rank that has joined.
struct Joined {
  std::unique_ptr<Member> member{};
  std::unique_ptr<Bridge> bridge{};  // nullptr when all ranks are on one host
};

// The segments of this process: those it made ids for, and those it has ranks in.
class Segments {
 public:
  // Where this process is, for what is made and joined from now on. [any-thread; does not block; cannot fail]
  void stand_at(Where where);
  // Kept open until a rank of this process has joined with it; where it failed to, until its deadline is past and another
  // join of this process ends. TN_NO_MEMORY.
  // [any-thread; may block; may fail]
  Result<Id> make_id();
  // TN_TIMEOUT names who is missing; TN_MISMATCH for another number of ranks; TN_INVALID for a rank that is taken;
  // TN_UNSUPPORTED for ranks that cannot share memory, and hosts that nothing connects; TN_PEER_LOST; TN_NO_MEMORY.
  // [any-thread; blocks; may fail]
  Result<Joined> join(const Ticket& ticket);

 private:
  // A segment that others find through this process.
  struct Made {
    uint64_t nonce = 0;
    system::Fd memory{};
    uint64_t until = driver::never;  // when it may be closed
  };

  Where where() const;
  // It may be closed at that time, as all that may be closed by now is. [any-thread; may block; cannot fail]
  void let_go(const Id& id, uint64_t at);
  struct Attempt;
  Result<Joined> join(Attempt& attempt);
  Status find_id(Attempt& attempt);
  // Takes the rank's slot in the segment.
  Result<std::unique_ptr<Member>> enter(const system::Fd& memory, const Attempt& attempt);
  static Status await_mates(Attempt& attempt, Member& member);
  Result<std::shared_ptr<Segment>> segment_of(const system::Fd& memory, uint32_t size);
  // How many ranks share these processors, of all that are in a communicator with a rank of this process.
  // [any-thread; does not block; may fail]
  size_t ranks_on(const system::Processors& processors);

  mutable std::mutex mutex_;
  Where where_;
  std::vector<Made> made_;
  std::map<uint64_t, std::weak_ptr<Segment>> segments_;  // by inode
};

}  // namespace tenon::cpu::comm
