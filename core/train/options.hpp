// SPDX-License-Identifier: Apache-2.0
// options.hpp: what a training step can be asked for.
//
// Invariant: a refusal names the option, its value and the remedy.
#pragma once

#include <tenon/training.hpp>

namespace tenon::train {

// [any-thread; does not block; cannot fail]
inline Status bad_training(const std::string& text) { return Status(TN_INVALID, "training_graph: " + text); }

// Whether these options can be, whatever the model is. [any-thread; does not block; may fail]
Status check(const TrainingOptions& options);

// What follows the sums, in words, a line each: TrainingGraph::rules. [any-thread; does not block; cannot fail]
std::string rules(const TrainingOptions& options);

}  // namespace tenon::train
