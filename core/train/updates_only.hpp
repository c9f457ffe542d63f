// SPDX-License-Identifier: Apache-2.0
// updates_only.hpp: what a rank without samples runs of a step.
//
// Invariant: whatever follows from sums over ranks, and from what lasts, comes out as in the whole step; what follows from this
// rank's own samples is not there.
#pragma once

#include <tenon/passes.hpp>

#include <string_view>

namespace tenon::train {

// `graph`, as passes left it, without its inputs: each sum over ranks is an input of its name, and so is still the one that is
// called `divisor`. What served nobody but the samples is left to `prune`. [any-thread; does not block; may fail]
Result<passes::Rewritten> updates_only(const Graph& graph, std::string_view divisor);

}  // namespace tenon::train
