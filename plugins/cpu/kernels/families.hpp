// SPDX-License-Identifier: Apache-2.0
// families.hpp: the table of what this plugin computes: one row for each op family of ops.def.
//
// A family is added by one file of kernels and one row. Nothing else asks what kind of node it has before it.
// Invariant: what a row does not refuse, it builds; an op without a row is refused.
#pragma once

#include "builder.hpp"

#include <string>

namespace tenon::cpu {

// What a node has to do, for a first choice between cuts.
struct Cost {
  double bytes = 0;  // read and written
  double flops = 0;
  uint32_t multiplied_in = TN_DTYPE_f32;  // the type of what `flops` multiply
};

struct Family {
  std::string_view name;  // as in ops.def
  // Why the node is not computed here although ops.def allows it, in words; "" when it is. NULL: it always is.
  std::string (*refuse)(const FragmentView& fragment, const tn_node& node) = nullptr;
  // Adds the node's steps. NULL beside a NULL `build_all`: its nodes join their neighbours in one elementwise pass.
  Status (*build)(Builder& builder, const tn_node& node, unsigned threads) = nullptr;
  // Adds one step for the nodes [first, end): neighbours of all families that name the same function.
  Status (*build_all)(Builder& builder, uint32_t first, uint32_t end, unsigned threads) = nullptr;
  // Of `build_all`: the elementwise nodes around node `at` that its step computes too, and itself.
  Nodes (*takes)(const FragmentView& fragment, uint32_t at) = nullptr;
  // NULL: every operand is read or written once, and that is all.
  Cost (*cost)(const FragmentView& fragment, const tn_node& node) = nullptr;
  // The type that values of `dtype` are computed in. NULL: f32 for halves, their own for the rest.
  uint32_t (*computes_in)(uint32_t dtype) = nullptr;
  // Whether an output may stand in the place of an input of the same dims, dtype and strides: each element is read before
  // it is written, and nothing of that input is read after. NULL: none may.
  bool (*in_place)(const tn_node& node, uint32_t input, uint32_t output) = nullptr;
  // The declared aliases whose outputs the step of `build_all` may write in place.
  author::Honoured (*honoured)(const FragmentView& fragment, uint32_t first, uint32_t end) = nullptr;

  bool fuses() const noexcept { return build == nullptr && build_all == nullptr; }
};

// The row of an op, or nullptr. [any-thread; does not block; cannot fail]
const Family* family_of(uint32_t op) noexcept;

// What is made of several families: a pass, and a product that is used up row by row. Nodes come to them in groups_of.
const Family& pass_family() noexcept;
const Family& panel_family() noexcept;

// Of a node whose op has a row. [any-thread; does not block; cannot fail]
Cost cost_of(const FragmentView& fragment, const tn_node& node);

// The half type among a node's operands that is computed in f32 here, or TN_DTYPE_NONE. Ops that only move elements
// convert none. [any-thread; does not block; cannot fail]
uint32_t converted_half(const FragmentView& fragment, const tn_node& node);

}  // namespace tenon::cpu
