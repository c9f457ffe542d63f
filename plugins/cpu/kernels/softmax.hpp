// SPDX-License-Identifier: Apache-2.0
// softmax.hpp: softmax, its logarithm and its gradient, along any axis.
//
// Invariant: halves are computed in f32 and rounded once.
#pragma once

#include "fused.hpp"

namespace tenon::cpu {

// Adds the steps of a group whose one node that is not elementwise is of the SOFTMAX family.
// [any-thread; may block; may fail]
Status build_softmax(Builder& builder, const Group& group, unsigned threads);

}  // namespace tenon::cpu
