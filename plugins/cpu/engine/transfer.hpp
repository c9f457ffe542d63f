// SPDX-License-Identifier: Apache-2.0
// transfer.hpp: moving and filling bytes, with as many threads as the size is worth.
//
// Invariant: source and destination do not overlap; whoever enqueued the command has seen to it.
#pragma once

#include "command.hpp"

namespace tenon::cpu {

// [worker thread; blocks; cannot fail]
void transfer(const CopyCommand& copy, const Team& team);
void transfer(const FillCommand& fill, const Team& team);
void transfer(const BoxCommand& box, const Team& team);

}  // namespace tenon::cpu
