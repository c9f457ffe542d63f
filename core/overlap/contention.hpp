// SPDX-License-Identifier: Apache-2.0
// contention.hpp: what computing and moving bytes do to each other, measured.
//
// Invariant: what leaves this file is the same on all ranks.
#pragma once

#include "overlap/trial.hpp"

#include <tenon/overlap.hpp>

namespace tenon::overlap {

// What a collective met beside computing. Nanoseconds.
struct Beside {
  double moved = 0;     // what the bytes that moved meanwhile take alone, without the latency
  double ns = 0;        // until the collective, or computing, was over
  double computed = 0;  // what was computed meanwhile takes alone
};

// A delay that both have and bytes that take as much longer explain a short collective and a long one; where the two disagree, the
// short one tells the delay. [any-thread; does not block; cannot fail]
Contention contention_between(const Beside& short_one, const Beside& long_one, double latency_ns) noexcept;

// Of `collective`, at most of `bytes`, which costs `cost` alone; the greatest of all ranks. None where nothing takes long enough to
// tell. [all ranks; blocks; may fail]
Result<Contention> measure_contention(Device& device, Lane& lane, uint64_t bytes,
                                      const Collective& collective, const CostTable& cost);

}  // namespace tenon::overlap
