// SPDX-License-Identifier: Apache-2.0
// attention_bf16.hpp: attention of bf16 where the processor multiplies tiles (AMX) or pairs (AVX512-BF16) of it.
//
// Products are of bf16 and summed in f32; shares are rounded to bf16 before they meet v.
// Invariant: as attention_forward.hpp: blocks of queries are independent, and scores never leave the caches.
#pragma once

#include "attention_forward.hpp"

namespace tenon::cpu {

// Whether there is a way, and it beats products of f32. [any-thread; cannot fail]
bool multiplies_bf16() noexcept;

// q, k, v and y are bf16, the mask is f32. Only where
// multiplies_bf16(). [any-thread; does not block; may throw
// bad_alloc]
std::unique_ptr<Step> attention_tiles_step(const AttentionForm& form, const AttentionOperands& operands,
                                           Builder& builder, unsigned threads);

}  // namespace tenon::cpu
