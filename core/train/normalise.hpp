// SPDX-License-Identifier: Apache-2.0
// normalise.hpp: a step whose batch norms take the mean and variance of all ranks' samples.
//
// Invariant: parameters begin as they would without, and what sums and their use add computes in f32.
#pragma once

#include <tenon/training.hpp>

namespace tenon::train {

// Communicator 1 of the step's graph sums what its batch norms need. Failures of passes::sync_batch_norm.
// [any-thread; does not block; may fail]
Status normalise_over_ranks(TrainingGraph& step, uint32_t ranks);

}  // namespace tenon::train
