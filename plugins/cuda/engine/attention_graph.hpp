// SPDX-License-Identifier: Apache-2.0
// attention_graph.hpp: attention and its gradient as graphs of cuDNN's, spelled as its fused engines know them.
//
// Forward: softmax(q × kᵀ · scale) × v, and log Σe as the rows' maximum plus the natural logarithm of their sum. Backward:
// the shares are made again from log Σe; dq is one product, so that the same bits come each time, for which the library keeps
// the shares' gradient in its workspace.
// Invariant: scores and shares are f32 but where they meet v, dy, q or k in a product, in whose type they are then.
#pragma once

#include "cudnn_graph.hpp"
#include "cudnn_room.hpp"

#include "../kernels/attention.hpp"

namespace tenon::cuda {

// Tensors that are in no binding.
enum AttentionNumber : int64_t {
  number_scale = 80,
  number_minus_infinity,
  number_one,
  number_queries,
  number_keys,
  number_row_sum,  // Σ dy·y
  number_y,        // results that nobody asked for
  number_dq,
  number_dk,
  number_dv,
};

// What a launch gives the graph. [any-thread; does not block; may throw bad_alloc]
std::vector<PlanConstant> attention_constants(const Attention& attention);
std::vector<PlanScratch> attention_scratch(const Attention& attention);

// `alignment` is what every address will be a multiple of. [any-thread; may block; may fail]
Result<Descriptor> attention_graph(const Cudnn& library, const Attention& attention, int64_t alignment);

}  // namespace tenon::cuda
