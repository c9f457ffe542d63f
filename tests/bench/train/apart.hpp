// SPDX-License-Identifier: Apache-2.0
// apart.hpp: a step that looks at each of its gradients by itself, as a framework without a verdict for all of them does.
//
// Invariant: it computes what the step does.
#pragma once

#include <tenon/graph.hpp>

namespace bench {

// In the place of one check_finite_and_unscale of all gradients there is one for each, and the greatest of what they found.
// TN_INVALID for a graph that has none. [any-thread; does not block; may fail]
tenon::Result<tenon::Graph> checked_apart(const tenon::Graph& step);

}  // namespace bench
