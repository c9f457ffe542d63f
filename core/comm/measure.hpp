// SPDX-License-Identifier: Apache-2.0
// measure.hpp: how long all-reduces take on each route.
//
// Invariant: what is measured is the same on all ranks, to the bit, so that all choose the same.
#pragma once

#include "comm/comm_state.hpp"

#include <vector>

namespace tenon::comm {

// Of up to `largest` bytes, by the slowest rank, the best of a few rounds. [all ranks; blocks; may fail]
Result<std::vector<CommTarget::Measured>> measure(detail::CommState& whole, const std::vector<Route>& routes,
                                                  uint64_t largest);

}  // namespace tenon::comm
