// SPDX-License-Identifier: Apache-2.0
// rules.hpp: whether a fragment's nodes are ones this plugin computes, and mean something.
//
// Invariant: after check_fragment a builder looks up dims, dtypes and attributes without asking again. TN_UNSUPPORTED is
// "no, because"; TN_INVALID is a fragment that no device could run.
#pragma once

#include <tenon/author/fragment_view.hpp>
#include <tenon/result.hpp>

#include <array>

namespace tenon::cpu {

using author::FragmentView;
using author::TensorView;

// Which part of kernels/ computes an op.
enum class Role { none, elementwise, reduction, matmul, reshape, transpose };
Role role_of(uint32_t op) noexcept;

// The words of a fragment's node: "node 3 (add)". [any-thread; may throw bad_alloc]
std::string node_name(const FragmentView& fragment, uint32_t node);

// Nodes, dtypes, shapes, attributes, order of nodes. Takes a few hundred ns for a small fragment.
// [any-thread; does not block; may fail]
Status check_fragment(const FragmentView& fragment);

// A reduction's axes, sorted out. Only after check_fragment.
struct Axes {
  std::array<uint32_t, TN_MAX_RANK> kept{}, reduced{};
  uint32_t kept_count = 0, reduced_count = 0;
};
Axes axes_of(const tn_node& node, uint32_t rank);

}  // namespace tenon::cpu
