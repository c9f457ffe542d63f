// SPDX-License-Identifier: Apache-2.0
// fault.hpp: the layer that fails on purpose: out of memory, a lost device, a delay on the n-th call.
//
// Grammar: RULE[;RULE…], RULE = FUNCTION:N:CODE[:DELAY_MS] or FUNCTION:N:delay=MS. FUNCTION is a name of the ABI ("alloc",
// "stream.create"); N counts that function's calls from 1, "*" is each of them; CODE is "no_memory", "device_lost", ….
// Invariant: an injected failure replaces the call, except where the ABI ends a handle whatever is returned (destroy,
// free): there the call runs and then fails. A lost device stays lost: only destroy, free and close succeed on it.
#pragma once

#include "layers/layer.hpp"

namespace tenon::layers {

// The fault layer for what stands after "fault=". TN_INVALID naming the part that is wrong, with the nearest name.
// [any-thread; does not block; may fail]
Result<std::unique_ptr<Layer>> make_fault(std::string_view rules, Log log);

}  // namespace tenon::layers
