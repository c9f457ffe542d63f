// SPDX-License-Identifier: Apache-2.0
// join.hpp: how ranks find the segment of their communicator, and each other.
//
// An id names a memory without a name: a descriptor in the process that made the id. Whoever comes first gives it its size
// and its pages, all take their slots, look at each other, and start when everyone has.
// Invariant: `join` succeeds on all ranks, or fails on all that are still there, within the timeout.
#pragma once

#include "member.hpp"

#include <map>
#include <mutex>

namespace tenon::cpu::comm {

struct Id {
  static constexpr std::array<char, 8> mark{'t', 'n', 'c', 'p', 'u', 'i', 'd', '1'};
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
  const std::atomic<bool>* cancelled = nullptr;  // set: the join ends with TN_ABORTED
};

// The segments of this process: those it made ids for, and those it has ranks in.
class Segments {
 public:
  // Kept open until a rank of this process has joined with it, or the plugin ends. TN_NO_MEMORY.
  // [any-thread; may block; may fail]
  Result<Id> make_id();
  // TN_TIMEOUT names who is missing; TN_MISMATCH for another number of ranks; TN_INVALID for a rank that is taken;
  // TN_UNSUPPORTED for ranks that cannot share memory; TN_PEER_LOST; TN_NO_MEMORY. [any-thread; blocks; may fail]
  Result<std::unique_ptr<Member>> join(const Ticket& ticket);

 private:
  Result<std::shared_ptr<Segment>> segment_of(const system::Fd& memory, uint32_t size);

  std::mutex mutex_;
  std::map<uint64_t, system::Fd> made_;                  // by inode
  std::map<uint64_t, std::weak_ptr<Segment>> segments_;  // by inode
};

}  // namespace tenon::cpu::comm
