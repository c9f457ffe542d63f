// SPDX-License-Identifier: Apache-2.0
// sums.hpp: what every rank gets of a collective, from what all have brought.
//
// Invariant: contributions are joined in the order of ranks, reals in `Wide` with one rounding, so a sum has the same bits
// however it is cut.
#pragma once

#include "wire.hpp"

#include <tenon/comm.h>

namespace tenon::sim::comm {

// Sets the masks: what kinds, reductions and types there are. [any-thread; does not block; cannot fail]
void list_taken(tn_comm_limits& out) noexcept;

// The results of one collective, one for each rank; `parts` has the part of each, and they agree.
// [any-thread; does not block; may throw bad_alloc]
std::vector<Bytes> results_of(std::span<const Part* const> parts);

}  // namespace tenon::sim::comm
