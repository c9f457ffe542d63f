// SPDX-License-Identifier: Apache-2.0
// ranks.hpp: the sources of reductions over the ranks of a communicator, one for each type with an entry for each reduction.
//
// Nothing in a source depends on the number of ranks or on where they lie, so each type is compiled once.
// Invariant: an entry joins in the order of ranks, so equal contributions give equal bits however they are cut.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::cuda {

// What every entry takes; as RanksParameters of ranks.cuh has it.
struct RanksParameters {
  unsigned long long slot, index, first, count;
  unsigned members, me, out_begin, out_end;
};

// Whether ranks' elements of `dtype` are reduced by `reduce`: bools have neither a mean nor factors.
// [any-thread; does not block; cannot fail]
bool reduces_ranks(uint32_t dtype, uint32_t reduce) noexcept;
// "ranks_sum" for TN_REDUCE_SUM. [any-thread; does not block; cannot fail]
const char* ranks_entry(uint32_t reduce) noexcept;
// The source for a type that is reduced; empty for another. [any-thread; does not block; may throw bad_alloc]
std::string write_ranks(uint32_t dtype);

}  // namespace tenon::cuda
