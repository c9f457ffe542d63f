// SPDX-License-Identifier: Apache-2.0
// words.hpp: collectives and ranks in words, for messages and records.
//
// Invariant: a number that the ABI does not know has a word too: what goes wrong is told, whatever it was.
#pragma once

#include <tenon/comm.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tenon::comm {

// All of these: [any-thread; does not block; cannot fail]
std::string_view kind_name(uint32_t kind) noexcept;         // "all_reduce" for TN_COMM_ALL_REDUCE; "?"
std::string_view reduction_name(uint32_t reduce) noexcept;  // "sum" for TN_REDUCE_SUM; "" where there is none
// Whether it concerns two ranks alone; all else is submitted by all ranks, in one order.
inline bool is_message(uint32_t kind) noexcept { return kind == TN_COMM_SEND || kind == TN_COMM_RECV; }
std::string listed(std::span<const uint32_t> ranks);      // "3, 5, 10"
std::string rank_words(std::span<const uint32_t> ranks);  // "rank 3"; "ranks 3, 5, 10"

}  // namespace tenon::comm
