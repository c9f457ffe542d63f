// SPDX-License-Identifier: Apache-2.0
// softmax.hpp: softmax, its logarithm and its gradient, along any axis.
//
// Invariant: halves are computed in f32 and rounded once.
#pragma once

#include "fused.hpp"

namespace tenon::cpu {

// Adds the steps of the nodes [first, end), of which the one that is not elementwise is of the SOFTMAX family.
// [any-thread; may block; may fail]
Status build_softmax(Builder& builder, uint32_t first, uint32_t end, unsigned threads);

}  // namespace tenon::cpu
