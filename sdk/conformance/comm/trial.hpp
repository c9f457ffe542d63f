// SPDX-License-Identifier: Apache-2.0
// trial.hpp: one collective with drawn numbers: what each rank brings, what it must get, and whether it did.
//
// Every rank knows what all bring, so each computes the reference by itself: exact for what is moved, for integers and for
// minima and maxima; for the rest a wider sum, and the roundings that the type computed in allows: f32 for halves, which
// are rounded once.
// Invariant: a trial is a function of its members and of rank and size alone.
#pragma once

#include "conformance/comm/ranks.hpp"

#include <string>

namespace tenon::conform {

struct Exchange {
  uint32_t kind = TN_COMM_ALL_REDUCE;  // SEND: a ring of messages, each rank to the next
  uint32_t dtype = TN_DTYPE_f32;
  uint32_t reduce = TN_REDUCE_SUM;
  uint64_t count = 0;
  uint32_t root = 0;
  bool in_place = false;
  bool device_factor = false;  // the factor of PREMUL_SUM is a tensor
  bool special = false;        // NaN and infinities among the numbers
  uint64_t skew = 0;           // elements that buffers are moved off their alignment
  uint64_t seed = 0;
};

// "all_reduce" for TN_COMM_ALL_REDUCE, "sum" for TN_REDUCE_SUM. [any-thread; does not block; cannot fail]
const char* kind_name(uint32_t kind) noexcept;
const char* reduce_name(uint32_t reduce) noexcept;
bool reduces(uint32_t kind) noexcept;
bool has_root(uint32_t kind) noexcept;
// Neither a mean nor a factor of bools means anything. [any-thread; does not block; cannot fail]
bool has_meaning(uint32_t dtype, uint32_t reduce) noexcept;
// "all_reduce sum of 7 f32, in place". [any-thread; does not block; may throw bad_alloc]
std::string told(const Exchange& trial);

// Operations of plain cases. [any-thread; does not block; cannot fail]
tn_comm_op all_reduce(const tn_span& send, const tn_span& recv, uint32_t dtype, uint64_t count,
                      uint32_t reduce = TN_REDUCE_SUM) noexcept;
tn_comm_op barrier() noexcept;

// What a rank must get: bytes, or numbers and how far each may be off.
struct Expected {
  Bytes bytes{};
  std::vector<long double> values{};
  std::vector<double> slack{};  // one for each value
};

// What `rank` of `size` brings, and what it must get; nothing where it gets nothing.
// [any-thread; does not block; may throw bad_alloc]
Bytes brought(const Exchange& trial, uint32_t rank, uint32_t size);
Expected expected(const Exchange& trial, uint32_t rank, uint32_t size);
// The factor of PREMUL_SUM that `rank` brings.
double factor_of(const Exchange& trial, uint32_t rank) noexcept;
// Elements from rank `from` to rank `to` of ALL_TO_ALL_V.
uint64_t given(const Exchange& trial, uint32_t from, uint32_t to) noexcept;
// What is wrong with `found`, or "". [any-thread; does not block; may throw bad_alloc]
std::string flaw_of(const Exchange& trial, const Expected& wanted, std::span<const std::byte> found);

// Runs it on `comm` and compares; TN_INTERNAL when a result is wrong. [this rank's thread; blocks; may fail]
Status perform(const Rank& rank, const Communicator& comm, const Stream& stream, const Exchange& trial);

}  // namespace tenon::conform
