// SPDX-License-Identifier: Apache-2.0
// reduce.hpp: reductions for nodes of other families that are one by another name.
//
// Invariant: the order of a fold depends on the shape alone.
#pragma once

#include "builder.hpp"

namespace tenon::cpu {

// Folds the node's input over `axes` with a reduction's op into its output. [any-thread; may block; may fail]
Status build_fold(Builder& builder, const tn_node& node, uint32_t op, const Axes& axes);

}  // namespace tenon::cpu
