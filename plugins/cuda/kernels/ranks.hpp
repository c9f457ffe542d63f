// SPDX-License-Identifier: Apache-2.0
// ranks.hpp: the reductions over the ranks of a communicator, which come compiled: what they take and how they are called. Read by the
// host's compiler and by the device's.
//
// Nothing in them depends on the number of ranks or on where they lie. They come compiled, and are loaded before a rank waits: a
// driver may load code only when all streams stand still, and ranks' streams wait for each other.
// Invariant: an entry joins in the order of ranks, so equal contributions give equal bits however they are cut.
#pragma once

#ifndef __CUDACC__
#include <cstdint>
#include <string>
#endif

namespace tenon::cuda {

// What every entry takes: elements [first, first + count) of the blocks that the members hold for `me`, joined and written to the
// members [out_begin, out_end).
struct RanksParameters {
  unsigned long long slot, index, first, count;
  unsigned members, me, out_begin, out_end;
};

#ifndef __CUDACC__
// The fatbin that holds them. [any-thread; does not block; cannot fail]
const void* ranks_image() noexcept;
// Whether ranks' elements of `dtype` are reduced by `reduce`: bools have neither a mean nor factors.
// [any-thread; does not block; cannot fail]
bool reduces_ranks(uint32_t dtype, uint32_t reduce) noexcept;
// "ranks_sum_f32" for TN_REDUCE_SUM of f32; empty where there is none. [any-thread; does not block; may throw bad_alloc]
std::string ranks_entry(uint32_t dtype, uint32_t reduce);
#endif

}  // namespace tenon::cuda
