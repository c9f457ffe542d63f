// SPDX-License-Identifier: Apache-2.0
// alone.hpp: a fragment of one node whose kernels are written by hand: what it must look like, and where its operands are.
//
// Invariant: of a fragment that passes, every operand of the node is bound, and the node's result is the only output.
#pragma once

#include "program.hpp"

#include <tenon/author/node_view.hpp>

#include <algorithm>

namespace tenon::cuda {

using author::FragmentView;
using author::NodeView;
using author::TensorView;

// Of a fragment of one node. [any-thread; does not block; may fail]
inline Status check_alone(const FragmentView& fragment) {
  const NodeView node(fragment, 0);
  if (fragment.outputs().size() != 1 || fragment.outputs()[0] != node.raw().outputs[0])
    return node.unsupported("the fragment gives more than its result, once: copy what else is wanted");
  for (uint32_t i = 0; i < node.inputs(); ++i) {
    if (node.in(i).is_constant())
      return node.unsupported(author::text("input ", i, " is a constant: bind it as an input"));
  }
  return {};
}

// The number of the node's input `i` among the bindings. Of a checked fragment. [any-thread; cannot fail]
inline uint32_t binding_of(const FragmentView& fragment, uint32_t i) {
  const auto found = std::ranges::find(fragment.inputs(), fragment.nodes()[0].inputs[i]);
  return static_cast<uint32_t>(found - fragment.inputs().begin());
}
inline uint32_t output_binding(const FragmentView& fragment) {
  return static_cast<uint32_t>(fragment.inputs().size());
}

}  // namespace tenon::cuda
