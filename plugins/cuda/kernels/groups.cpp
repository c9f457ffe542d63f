// SPDX-License-Identifier: Apache-2.0
// groups.cpp: what the generator takes of elementwise nodes, reductions and moves, and the source that they become: the prelude,
// what the fragment's kernels share, and its kernels.
#include "expression.hpp"
#include "families.hpp"
#include "kernels.hpp"
#include "literal.hpp"
#include "prelude.hpp"

#include <tenon/author/node_view.hpp>

namespace tenon::cuda {

using author::NodeView;
using author::text;

namespace {

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

}  // namespace

void write_constants(const Frame& frame, Source& out) {
  const auto tensors = static_cast<uint32_t>(frame.fragment.tensors().size());
  for (uint32_t t = 0; t < tensors; ++t) {
    const TensorView tensor = frame.fragment.tensor(t);
    if (!tensor.is_constant() || tensor.elements() == 0 || repeated_bits(tensor)) continue;
    out.plain(constant_array(text("constant", t), tensor));
  }
}

bool takes_all(const FragmentView&) { return true; }

// What the generator does not write of what ops.def allows.
Status check_group_node(const FragmentView& fragment, uint32_t index) {
  const NodeView node(fragment, index);
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

Status check_groups(const FragmentView& fragment) {
  for (uint32_t n = 0; n < fragment.nodes().size(); ++n) TN_TRY(check_group_node(fragment, n));
  return {};
}

Result<Program> write_groups(const FragmentView& fragment, const Target& target) {
  return write_schedule(fragment, make_schedule(fragment), target);
}

Result<Program> write_schedule(const FragmentView& fragment, Schedule schedule, const Target& target) {
  const Frame frame{fragment, schedule};
  Source out;
  open_source(out, fragment.binding_count());
  write_constants(frame, out);
  Program program;
  uint32_t number = 0;
  Parts parts;
  std::vector<uint32_t> columns;
  for (const Group& group : schedule.groups) {
    out.line();
    if (group.keeps_rows()) {
      parts = TN_TRY(write_kept_rows(frame, schedule, group, target, number++, out, program.steps));
      columns = group.columns;
      continue;
    }
    if (parts.slices > 0 && group.reductions == columns) {
      TN_TRY(write_column_sums(frame, group, parts, target, number++, out, program.steps));
      continue;
    }
    Trace traced = TN_TRY(trace(fragment, schedule, group));
    if (group.reductions.empty())
      write_elementwise(frame, traced, target, number, out, program.steps);
    else
      write_reduction(frame, schedule, group, traced, target, number, out, program.steps);
    ++number;
  }
  close_source(out);
  program.source = out.text();
  program.workspace_bytes = schedule.workspace_bytes;
  return program;
}

}  // namespace tenon::cuda
