// SPDX-License-Identifier: Apache-2.0
// run_cores.hpp: which cores each rank of a host is bound to.
//
// Invariant: with `core` the sets are disjoint, hold whole cores (all their hardware threads), and are contiguous within
// the order of NUMA nodes; nothing outside this process's own affinity is ever given.
#pragma once

#include "run_wire.hpp"

#include <tenon/result.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::tool::run {

struct Core {
  uint32_t node = 0;
  std::vector<uint32_t> processors{};  // its hardware threads
};

// The cores this process may use, by node and number. Empty where the system does not tell. [any-thread; may block]
std::vector<Core> usable_cores();

struct Share {
  std::vector<uint32_t> processors{};  // sorted; empty: not bound
  uint32_t threads = 1;                // cores there are for each rank, at least 1
};

// One share for each of `ranks`. `automatic` is `core` where that works, else `none`. TN_INVALID when `core` is asked for
// and there are fewer cores than ranks. [any-thread; does not block; may fail]
Result<std::vector<Share>> shares_of(const std::vector<Core>& cores, uint32_t ranks, Bind bind);

// {0, 1, 2, 5} is "0-2,5". [any-thread; does not block; cannot fail]
std::string ranges(const std::vector<uint32_t>& sorted);

}  // namespace tenon::tool::run
