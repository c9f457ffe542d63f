// SPDX-License-Identifier: Apache-2.0
// sync_batch_norm.hpp: batch normalisation with the mean and variance of all ranks' samples.
//
//   batch_norm_train  →  batch_norm_stats, their sum over ranks, batch_norm_apply
//   batch_norm_grad   →  batch_norm_grad_stats, their sum over ranks, batch_norm_grad_apply
// Invariant: every rank has as many samples, and comes to the same mean, variance and running statistics as all others.
#pragma once

#include <tenon/passes.hpp>

namespace tenon::passes {

// Communicator `comm`, which the graph gets, has `ranks`. Gradients of scale and bias stay those of a rank's own samples, to be summed
// as all gradients are. The variance is the mean of squares less the square of the mean. TN_INVALID for a graph with a mistake, or that
// was aliased or placed already. [any-thread; does not block; may fail]
Result<Rewritten> sync_batch_norm(Rewritten work, int64_t comm, int64_t ranks);

}  // namespace tenon::passes
