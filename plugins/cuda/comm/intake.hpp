// SPDX-License-Identifier: Apache-2.0
// intake.hpp: what of an operation is checked before anybody hears of it, whoever carries the communicator.
//
// Invariant: what comes out of here fits its own spans; whether it fits what other ranks bring is for others to see.
#pragma once

#include "member.hpp"
#include "part.hpp"

#include <functional>

namespace tenon::cuda::comm {

// Where a span lies, or why this communicator does not take it; `what` names it.
using Reach = std::function<Result<uint64_t>(const tn_span& span, uint32_t index, const char* what)>;

// Operation `index` of a group as `rank` of `size` brings it. TN_INVALID, and what `reach` says.
// [rank's thread; does not block; may fail]
Result<Part> part_of(const tn_comm_op& op, uint32_t index, uint32_t rank, uint32_t size, const Reach& reach);
// TN_INVALID for a stream of another device. [any-thread; does not block; may fail]
Status check_stream(const Stream& stream, const Ticket& ticket);
// Whether an exchange writes where it reads, so that what is sent is copied aside first.
// [any-thread; does not block; cannot fail]
bool overlaps(const Part& part) noexcept;

}  // namespace tenon::cuda::comm
