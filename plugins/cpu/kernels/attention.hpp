// SPDX-License-Identifier: Apache-2.0
// attention.hpp: attention and its gradient as steps of a program.
//
// Invariant: memory grows with the operands, never with queries × keys.
#pragma once

#include "builder.hpp"

namespace tenon::cpu {

// Adds the steps of an attention or attention_grad node. [any-thread; may block; may fail]
Status build_attention(Builder& builder, const tn_node& node, unsigned threads);

// Multiplications of both directions, twice. [any-thread; does not block; cannot fail]
double attention_flops(const FragmentView& fragment, const tn_node& node);

// The type of what they multiply here. [any-thread; does not block; cannot fail]
uint32_t attention_multiplies_in(const FragmentView& fragment, const tn_node& node);

// The type in which attention of `dtype` is computed here. [any-thread; does not block; cannot fail]
uint32_t attention_dtype(uint32_t dtype) noexcept;

}  // namespace tenon::cpu
