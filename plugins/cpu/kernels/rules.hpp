// SPDX-License-Identifier: Apache-2.0
// rules.hpp: whether a fragment means something, and whether this plugin computes it.
//
// Invariant: after check_fragment a builder looks up dims, dtypes and attributes without asking again. TN_UNSUPPORTED is
// "no, because"; TN_INVALID is a fragment that no device could run.
#pragma once

#include <tenon/author/node_view.hpp>

namespace tenon::cpu {

using author::FragmentView;
using author::node_name;
using author::TensorView;

// ops.def's rules, then what the node's family refuses. Takes a few hundred ns for a small fragment.
// [any-thread; does not block; may fail]
Status check_fragment(const FragmentView& fragment);

// A reduction's axes, sorted out. Only after check_fragment.
struct Axes {
  std::array<uint32_t, TN_MAX_RANK> kept{}, reduced{};
  uint32_t kept_count = 0, reduced_count = 0;
};
Axes axes_of(const tn_node& node, uint32_t rank);

}  // namespace tenon::cpu
