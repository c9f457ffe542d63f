// SPDX-License-Identifier: Apache-2.0
// meeting.hpp: how ranks find out about each other by the store, before anybody joins anything.
//
// Every rank says what it is, hears what all others are, and draws its conclusion; where NCCL is to join them, rank 0 makes the
// library's id then, so that no id is made that nobody uses.
// Invariant: ranks that come to an end here come to the same one, but for those whose patience ends.
#pragma once

#include "member.hpp"
#include "nccl_door.hpp"
#include "place.hpp"
#include "presence.hpp"

namespace tenon::cuda::comm {

struct Choice {
  Way way;
  Enrolling enrolling;  // where NCCL joins them
};

class Meeting {
 public:
  // All of it is borrowed.
  Meeting(const Place& place, const Ticket& ticket, const tn_store& store, const Patience& patience)
      : place_(place), ticket_(ticket), store_(store), patience_(patience) {}

  // TN_TIMEOUT names a rank that is missing; TN_ABORTED when called off; what choose_way says.
  // [any-thread; blocks; may fail]
  Result<Choice> choose(const Presence& mine);
  // NCCL's id: made by rank 0, heard by the others. TN_UNSUPPORTED on all where it cannot be made. [any-thread; blocks; may fail]
  Result<NcclId> agree_on_id(const char* library);

 private:
  Status say(const std::string& what, const std::string& value);
  Result<std::string> hear(const std::string& what, uint32_t from);

  const Place& place_;
  const Ticket& ticket_;
  const tn_store& store_;
  const Patience& patience_;
};

// What this rank is. [any-thread; may block; cannot fail]
Presence present(const Ticket& ticket, bool deterministic, const Wishes& wishes, const char* library);

}  // namespace tenon::cuda::comm
