// SPDX-License-Identifier: Apache-2.0
// rules.cpp: which fragments the generator takes. What ops.def forbids is the author framework's to say.
//
// A refusal names the node, its values and, where there is one, the way out. Nothing is allocated until something is wrong.
#include "expression.hpp"
#include "program.hpp"
#include "schedule.hpp"

#include <tenon/author/op_rules.hpp>

namespace tenon::cuda {

using author::FragmentView;
using author::NodeView;
using author::TensorView;
using author::text;

namespace {

constexpr size_t most_nodes = 128;
constexpr uint32_t most_bindings = 64;
constexpr uint64_t most_constant_bytes = 64 << 10;
constexpr uint64_t most_elements = uint64_t{1} << 38;

bool moves(uint32_t op) {
  switch (op) {
    case TN_OP_reshape:
    case TN_OP_transpose:
    case TN_OP_concat:
    case TN_OP_slice:
    case TN_OP_pad:
    case TN_OP_broadcast_to:
    case TN_OP_constant:
    case TN_OP_convert_layout:
    case TN_OP_one_hot:
    case TN_OP_embedding:
      return true;
    default:
      return false;
  }
}

Status check_limits(const FragmentView& fragment) {
  if (fragment.nodes().size() > most_nodes) {
    return Status(TN_UNSUPPORTED, text("the fragment has ", fragment.nodes().size(), " nodes; at most ",
                                       most_nodes, " become one program: cut it"));
  }
  if (fragment.binding_count() > most_bindings) {
    return Status(TN_UNSUPPORTED, text("the fragment has ", fragment.binding_count(),
                                       " bindings; one program takes ", most_bindings, ": cut it"));
  }
  return {};
}

Status check_tensor(const FragmentView& fragment, uint32_t index) {
  const TensorView tensor = fragment.tensor(index);
  if (tensor.raw().layout != 0) {
    return Status(TN_UNSUPPORTED, text("tensor ", index, " has private layout ", tensor.raw().layout,
                                       "; this device has none: give it strides"));
  }
  if (tensor.elements() > most_elements || tensor.extent_bytes() > most_elements * 8) {
    return Status(TN_UNSUPPORTED, text("tensor ", index, " has ", tensor.elements(), " elements over ",
                                       tensor.extent_bytes(), " bytes; one launch reaches ", most_elements));
  }
  const uint64_t bytes = author::dtype_bytes(tensor.dtype(), tensor.elements());
  if (!tensor.is_constant() || bytes <= most_constant_bytes) return {};
  return Status(TN_UNSUPPORTED,
                text("constant tensor ", index, " has ", bytes, " bytes; a source holds at most ",
                     most_constant_bytes, ": bind it as an input"));
}

Status check_argmax(const NodeView& node) {
  const std::span<const int64_t> dims = node.dims(0), axes = node.integers("axes");
  const int64_t axis = axes[0] < 0 ? axes[0] + static_cast<int64_t>(dims.size()) : axes[0];
  if (dims[static_cast<size_t>(axis)] != 0 || node.out(0).elements() == 0) return {};
  return node.malformed(
      text("axis ", axes[0], " of ", author::words(dims), " is empty: nothing has no greatest"));
}

Status check_table(const FragmentView& fragment, const NodeView& node) {
  for (const tn_node& other : fragment.nodes()) {
    if (other.output_count > 0 && other.outputs[0] == node.raw().inputs[1])
      return node.unsupported("its table is computed by a node of the same fragment: compile that one apart");
  }
  return {};
}

// What the generator does not write of what ops.def allows.
Status check_written(const FragmentView& fragment, const NodeView& node) {
  const uint32_t op = node.op();
  if (!is_computed(op) && !is_reduction(op) && !moves(op)) {
    return node.unsupported(
        "no kernel is written for this op: compute it on another device, or from ops that have one");
  }
  if (op == TN_OP_argmax) return check_argmax(node);
  if (op == TN_OP_embedding) return check_table(fragment, node);
  if (op != TN_OP_convert_layout) return {};
  const std::string_view layout = *author::attribute_string(node.raw(), "layout");
  if (layout.empty() || layout == "strided") return {};
  return node.unsupported(text("layout '", layout, "' is not known here: there are none but strided ones"));
}

}  // namespace

Status check_fragment(const FragmentView& fragment) {
  TN_TRY(check_limits(fragment));
  for (uint32_t i = 0; i < fragment.tensors().size(); ++i) TN_TRY(check_tensor(fragment, i));
  TN_TRY(author::check_rules(fragment));
  for (uint32_t n = 0; n < fragment.nodes().size(); ++n)
    TN_TRY(check_written(fragment, NodeView(fragment, n)));
  return {};
}

}  // namespace tenon::cuda
