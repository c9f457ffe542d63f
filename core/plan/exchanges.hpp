// SPDX-License-Identifier: Apache-2.0
// exchanges.hpp: the all_reduce nodes of a graph, taken out of what a device runs.
//
// Communicator 0 sums gradients, any other what launches behind it need at once. Invariant: gradients are made by groups before
// `first_late`, and what needs their sums comes from there on, in the order in which the last sum that a group needs was sent; groups
// that need the same keep their order.
#pragma once

#include "plan/state.hpp"

namespace tenon::plan_room {

struct Exchanges {
  std::vector<Plan::State::Exchange> all{};  // of gradients, in the order of their nodes
  std::vector<Plan::State::Sum> sums{};      // the others, in the order of the groups before them
  std::vector<std::vector<uint32_t>>
      read{};  // of each group: those of `all` whose sums it reads itself, ascending
  uint32_t first_late = 0,
           first_with_all = 0;  // the first group that needs one; that needs an input of with_sums
};

// Takes the all_reduce nodes out of `cut` and puts the groups that need their sums, or inputs of `with_sums`, behind all others.
// TN_INVALID for a name that is no input; TN_UNSUPPORTED naming the node: for one that needs another's sum, that sends a leaf, whose
// sum is an output of the graph, or that the device has in a group. [any-thread; does not block; may fail]
Result<Exchanges> take_out(const Graph& graph, FusionCut& cut, std::span<const std::string> with_sums);

}  // namespace tenon::plan_room
