// SPDX-License-Identifier: Apache-2.0
// optimizer.hpp: optimizers and loss scaling: neighbours of both families become one step.
//
// Invariant: as elementwise work, bit for bit what the nodes give one by one.
#pragma once

#include "builder.hpp"
#include "optimizer_plan.hpp"

namespace tenon::cpu {

// Adds the step of nodes [first, end), all of which are updates. [any-thread; may block; may fail]
Status build_updates(Builder& builder, uint32_t first, uint32_t end, unsigned threads);

}  // namespace tenon::cpu
