// SPDX-License-Identifier: Apache-2.0
// draw_group.hpp: random groups of elementwise nodes with reductions among them, from choices alone.
//
// Every node is first computed on a few numbers: one whose results would overflow, be no numbers, or lie too far from
// certain is replaced by the next op of the table, so that a group of thirty nodes still says something.
// Invariant: whatever the choices are, the group is legal and has at least two nodes; the smallest choices make the
// smallest group.
#pragma once

#include "conformance/fragments/group.hpp"
#include "conformance/ops/choices.hpp"

namespace tenon::conform {

class Vocabulary;

// What a group may have.
struct GroupForm {
  uint64_t least_nodes = 2, most_nodes = 8;
  bool mixed = false;                 // several types, joined by casts
  bool integers = false;              // integers and bools instead of floats
  bool broadcast = false;             // operands with dims of 1 and without leading dims
  bool constants = false;             // some operands are constants
  bool reductions = false;            // some values are reduced, and go on where their dims stay
  bool several = false;               // inner values are given out, too
  bool strided = false;               // bound values have gaps, other orders of dims, strides of 0
  bool in_place = false;              // results may take the place of inputs
  const Vocabulary* known = nullptr;  // what its nodes may be; null: anything
};

// A group of about `budget` elements in each of its larger values. [any-thread; may throw bad_alloc]
Group draw_group(const GroupForm& form, uint64_t budget, Choices& choices);
// One in which `row`, about `subject`, is among the nodes. [any-thread; may throw bad_alloc]
Group draw_group_with(const Row& row, uint32_t subject, const GroupForm& form, uint64_t budget,
                      Choices& choices);

// Rows of elementwise ops. [any-thread; does not block; cannot fail]
const std::vector<const Row*>& elementwise_rows();
// Whether the row's cases may be about `dtype`. [any-thread; does not block; may throw bad_alloc]
bool takes(const Row& row, uint32_t dtype);
// Dims of the operands joined by numpy's rules, which must allow it. [any-thread; may throw bad_alloc]
std::vector<int64_t> joined(const std::vector<std::vector<int64_t>>& operands);
// Every value that no node reads becomes an output, with a chance of 1 in `others` (0: none) some that are read; bound
// values get their places. [any-thread; may throw bad_alloc]
void finish_group(Group& group, Choices& choices, bool strided, uint64_t others);
// Outputs that have an input like them may take its place. [any-thread; may throw bad_alloc]
void pair_in_place(Group& group);

}  // namespace tenon::conform
