// SPDX-License-Identifier: Apache-2.0
// plan.hpp: from a fragment to a program: groups of elementwise nodes in one pass each, every other node on its own.
//
// Invariant: `judge` and `make_program` cut a fragment the same way, so what is promised is what is built.
#pragma once

#include "../kernel.hpp"
#include "builder.hpp"

namespace tenon::cpu {

// Answers `supports`. TN_INVALID for a malformed fragment. [any-thread; does not block; may fail]
Status judge(const tn_fragment& fragment, tn_support& out);

// Compiles for a device of `threads`. TN_UNSUPPORTED with the reason, also when a run would need more workspace than the
// tuning allows. [any-thread; may block; may fail]
Result<std::unique_ptr<const Program>> make_program(const tn_fragment& fragment, const Tuning& tuning,
                                                    unsigned threads);

}  // namespace tenon::cpu
