// SPDX-License-Identifier: Apache-2.0
// attention_backward.hpp: the gradient of attention, f32 and f64, from dy, q, k, v, y and the logarithms.
//
// A block of keys meets the queries block by block; shares are computed again, never kept.
// Invariant: dk and dv of a key have one writer; where several writers share a head, each adds to a dq of its own, and
// these are summed in order: the result depends on the plan alone.
#pragma once

#include "attention_form.hpp"
#include "builder.hpp"

namespace tenon::cpu {

// Rows of dy, q and k are read in whole vectors: what follows a row's last element may be anything, but has to be there.
struct AttentionGradOperands {
  HeadRows dy, q, k, v, y, log;
  HeadRows dq, dk, dv;  // any may be left out
};

// T is float or double. [any-thread; does not block; may throw bad_alloc]
template <class T>
std::unique_ptr<Step> attention_grad_step(const AttentionForm& form, const AttentionGradOperands& operands,
                                          Builder& builder, unsigned threads);

}  // namespace tenon::cpu
