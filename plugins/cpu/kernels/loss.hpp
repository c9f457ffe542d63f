// SPDX-License-Identifier: Apache-2.0
// loss.hpp: cross_entropy of scores and labels, and its gradient.
//
// Invariant: a label that is ignored, or that names no class, loses nothing and has no gradient.
#pragma once

#include "fused.hpp"

namespace tenon::cpu {

// Adds the steps of the nodes [first, end), of which the one that is not elementwise is of the LOSS family.
// [any-thread; may block; may fail]
Status build_loss(Builder& builder, uint32_t first, uint32_t end, unsigned threads);

}  // namespace tenon::cpu
