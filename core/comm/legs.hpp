// SPDX-License-Identifier: Apache-2.0
// legs.hpp: a group of operations cut into what each communicator of a hierarchy does, step after step.
//
// Contributions are scaled and divided in the first step alone (a mean is a sum with the factor 1 / ranks), so that f16 means
// cannot overflow on the way; the steps after it sum. Steps after the first work in place in the caller's `recv`, so no memory
// is taken. What shards leave over goes by the first rank of each group, in the same groups.
// Invariant: the steps follow from what is the same on all ranks; an operation without elements keeps its place in each.
#pragma once

#include <tenon/hierarchy.hpp>

namespace tenon::comm {

// This rank's place in a hierarchy.
struct Seat {
  uint32_t size = 1;    // of all ranks
  uint32_t member = 0;  // this rank in its group
  uint32_t members = 1;
  uint32_t leader = 0;  // the leader in the group
  bool reduces = true;  // `reduce` exists; otherwise the group all-reduces
};

// In the order in which they are submitted.
struct Legs {
  std::vector<CommOp> flat{}, group{}, leaders{}, shards{}, group_again{};
};

// Adds what `op` is on `route` to `legs`. [any-thread; does not block; cannot fail]
void add_legs(const CommOp& op, Route route, const Seat& seat, Legs& legs);

}  // namespace tenon::comm
