// SPDX-License-Identifier: Apache-2.0
// chain_nodes.hpp: one node as a value of a chain.
//
// Invariant: the value has the bits that the node gives on its own.
#pragma once

#include "builder.hpp"
#include "chain.hpp"

namespace tenon::cpu {

// Whether a chain computes such nodes: elementwise ones, and dropout.
bool is_chained(uint32_t op) noexcept;

// How many inputs of the node are operands; what else a dropout reads is looked up in the builder.
uint32_t operand_count(const tn_node& node) noexcept;

// The node's value from those of its operands, rounded to the dtype of its output. [cannot fail]
Chain::Value chain_node(const Builder& builder, Chain& chain, Reg reg, const tn_node& node,
                        const Chain::Value (&operands)[3]);

}  // namespace tenon::cpu
