// SPDX-License-Identifier: Apache-2.0
// attention_forward.hpp: attention of f32 and f64: y = softmax(q·kᵀ·scale + mask)·v and its logarithms.
//
// A block of queries meets the keys block by block with a running maximum and sum, so scores never leave the caches.
// Invariant: what a block of queries gives does not depend on which thread computes it.
#pragma once

#include "attention_form.hpp"
#include "builder.hpp"

namespace tenon::cpu {

struct AttentionOperands {
  HeadRows q, k, v;
  HeadRows y, log;  // either may be left out; log is f32, its row a query's stride
};

// T is float or double. [any-thread; does not block; may throw bad_alloc]
template <class T>
std::unique_ptr<Step> attention_step(const AttentionForm& form, const AttentionOperands& operands,
                                     Builder& builder, unsigned threads);

}  // namespace tenon::cpu
