// SPDX-License-Identifier: Apache-2.0
// sums.hpp: what every rank gets of a collective, from what all have brought.
//
// Invariant: contributions are joined in the order of ranks, reals in `Wide` with one rounding, so a sum has the same bits
// however it is cut.
#pragma once

#include "wire.hpp"

namespace tenon::sim::comm {

// What kinds, reductions and types there are, as bits of tn_comm_limits; f64 where the device has it.
struct Takes {
  uint64_t kinds = 0, reductions = 0, dtypes = 0, reducible = 0;
};
Takes takes() noexcept;

// The results of one collective, one for each rank; `parts` has the part of each, and they agree.
// [any-thread; does not block; may throw bad_alloc]
std::vector<Bytes> results_of(std::span<const Part* const> parts);

}  // namespace tenon::sim::comm
