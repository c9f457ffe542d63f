// SPDX-License-Identifier: Apache-2.0
// contention.hpp: what computing and moving bytes do to each other, measured.
//
// Invariant: what leaves this file is the same on all ranks.
#pragma once

#include "overlap/trial.hpp"

#include <tenon/overlap.hpp>

namespace tenon::overlap {

// Of `collective`, at most of `bytes`, which costs `cost` alone; the greatest of all ranks. None where nothing takes long enough to
// tell. [all ranks; blocks; may fail]
Result<Contention> measure_contention(Device& device, Lane& lane, uint64_t bytes,
                                      const Collective& collective, const CostTable& cost);

}  // namespace tenon::overlap
