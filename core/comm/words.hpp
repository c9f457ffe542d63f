// SPDX-License-Identifier: Apache-2.0
// words.hpp: collectives in words, for messages and records.
//
// Invariant: a number that the ABI does not know has a word too: what goes wrong is told, whatever it was.
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon::comm {

// "all_reduce" for TN_COMM_ALL_REDUCE; "?". [any-thread; does not block; cannot fail]
std::string_view kind_name(uint32_t kind) noexcept;
// "sum" for TN_REDUCE_SUM; "" where there is none. [any-thread; does not block; cannot fail]
std::string_view reduction_name(uint32_t reduce) noexcept;

}  // namespace tenon::comm
