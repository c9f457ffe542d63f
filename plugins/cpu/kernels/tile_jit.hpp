// SPDX-License-Identifier: Apache-2.0
// tile_jit.hpp: tile plans as generated code.
//
// Dense operands are read and results written by the code itself; what lies otherwise passes through tiles in L1, which the
// interpreter's loads fill and its stores empty. Values live in registers.
// Invariant: the same bits as the interpreter's, but for which NaN a NaN is.
#pragma once

#include "tiles.hpp"

#include <string>

namespace tenon::cpu {

// nullptr, and in a few words why, where the plan is the interpreter's. [any-thread; may block; may throw bad_alloc]
std::unique_ptr<Step> generated_step(const TilePlan& plan, std::string& why);

// "not built in", or "" where this build has the code generator. [any-thread; does not block; cannot fail]
const char* why_no_jit() noexcept;

}  // namespace tenon::cpu
