// SPDX-License-Identifier: Apache-2.0
// node.hpp: one node with attributes of its own, and one run of it; the kernels of every op family.
//
// Invariant: a kernel runs only after rules.cpp has found its dtypes, shapes and attributes good, so it checks nothing.
#pragma once

#include "tensor.hpp"

#include <map>
#include <string>

namespace tenon::sim {

// An attribute as the fragment had it, kept after the fragment is gone.
struct Value {
  int64_t integer = 0;
  double real = 0;
  std::vector<int64_t> integers{};
  std::string text{};
};

struct Node {
  uint32_t op = 0;
  std::vector<uint32_t> in{}, out{};  // tensors; TN_ABSENT where left out
  std::map<std::string, Value, std::less<>> attributes{};

  explicit Node(const tn_node& node);
  int64_t integer(std::string_view name) const { return attributes.find(name)->second.integer; }
  double real(std::string_view name) const { return attributes.find(name)->second.real; }
  const std::vector<int64_t>& integers(std::string_view name) const {
    return attributes.find(name)->second.integers;
  }
};

struct Call {
  const Node& node;
  std::vector<Operand> in, out;

  // Optional operands may be absent or not be listed at all.
  bool has(size_t i) const noexcept { return i < in.size() && in[i]; }
  bool gives(size_t i) const noexcept { return i < out.size() && out[i]; }
};

using Routine = void (*)(const Call&);

// Each family's routine for an op, nullptr when the op is another family's.
Routine elementwise(uint32_t op);
Routine reduction(uint32_t op);
Routine product(uint32_t op);
Routine window(uint32_t op);
Routine normalisation(uint32_t op);
Routine softmax(uint32_t op);
Routine attention(uint32_t op);
Routine indexing(uint32_t op);
Routine random(uint32_t op);
Routine movement(uint32_t op);
Routine update(uint32_t op);

// The routine of any op, nullptr when it is not computed here. [any-thread; does not block; cannot fail]
Routine routine_of(uint32_t op);

}  // namespace tenon::sim
