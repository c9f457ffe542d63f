// SPDX-License-Identifier: Apache-2.0
// recomputes.hpp: whether a step's way back makes values again instead of reading them.
//
// Invariant: ranks that run the same step on devices of one kind choose the same.
#pragma once

#include <tenon/fusion.hpp>
#include <tenon/graph.hpp>
#include <tenon/strategy.hpp>

namespace tenon::train {

// Whether there is a batch norm's gradient, and the device has, and the strategy lets happen, the fusion for which `passes::recompute`
// writes graphs. A strategy that names nodes to fuse or to leave alone may take the three of it apart, and what is made again would
// be a launch of its own: no.
// [any-thread; does not block; cannot fail]
bool recomputes(const Graph& graph, const Strategy& strategy, const FusionTarget& target);

}  // namespace tenon::train
