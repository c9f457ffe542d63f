// SPDX-License-Identifier: Apache-2.0
// rules.cpp: what a profile refuses; what ops.def forbids is the author framework's to say.
#include "rules.hpp"

#include "node.hpp"

#include <tenon/author/op_rules.hpp>

namespace tenon::sim {

using author::NodeView;
using author::text;

namespace {

Status check_limits(const author::FragmentView& f, const Profile& profile) {
  const size_t nodes = f.nodes().size();
  if (profile.whole_graphs && nodes == 1) {
    return Status(TN_UNSUPPORTED,
                  text("a single ", author::op_name(f.nodes()[0].op), " is no whole graph; profile '",
                       profile.name, "' runs nothing less (feature WHOLE_GRAPH)"));
  }
  if (profile.max_nodes != 0 && nodes > profile.max_nodes) {
    return Status(TN_UNSUPPORTED, text(nodes, " nodes; one kernel holds at most ", profile.max_nodes));
  }
  if (profile.max_bindings != 0 && f.binding_count() > profile.max_bindings) {
    return Status(TN_UNSUPPORTED,
                  text(f.binding_count(), " bindings; one kernel takes at most ", profile.max_bindings));
  }
  return {};
}

Status check_tensor(const author::FragmentView& f, uint32_t index, const Profile& profile) {
  const author::TensorView tensor = f.tensor(index);
  if (profile.refuses_dtype(tensor.dtype_name())) {
    return Status(TN_UNSUPPORTED, text("tensor ", index, " is ", tensor.dtype_name(),
                                       ", which kernels of profile '", profile.name, "' refuse"));
  }
  const uint32_t known = profile.private_layout.empty() ? 0 : 1, layout = tensor.raw().layout;
  if (layout <= known) return {};
  return Status(TN_UNSUPPORTED, text("tensor ", index, " has private layout ", layout, "; profile '",
                                     profile.name, "' has ", known));
}

Status check_computed(const NodeView& node) {
  if (author::op_row(node.op()).family == "COLLECTIVE")
    return node.unsupported("collectives are no nodes of a fragment here (no feature FRAGMENT_COLLECTIVES)");
  return routine_of(node.op()) != nullptr ? Status() : node.unsupported("this op is not computed here");
}

Status check_layouts(const NodeView& node, const Profile& profile) {
  if (node.op() == TN_OP_convert_layout) {
    const std::string_view wanted = *author::attribute_string(node.raw(), "layout");
    const bool strided = node.out(0).raw().layout == 0;
    if (strided ? wanted.empty() || wanted == "strided" : wanted == profile.private_layout) return {};
    return node.malformed(text("attribute 'layout' is '", wanted, "', which is not its result's layout"));
  }
  for (uint32_t i = 0; i < node.inputs(); ++i) {
    if (!node.has(i) || node.in(i).raw().layout == 0) continue;
    if (node.gives(0) && same_dims(node.in(i), node.out(0))) continue;
    if (node.op() == TN_OP_matmul && node.in(i).rank() == node.out(0).rank()) continue;
    return node.unsupported(
        text("input ", i, " has layout '", profile.private_layout, "' and is broadcast: convert it first"));
  }
  return {};
}

}  // namespace

Status check_fragment(const author::FragmentView& f, const Profile& profile) {
  TN_TRY(check_limits(f, profile));
  for (uint32_t i = 0; i < f.tensors().size(); ++i) TN_TRY(check_tensor(f, i, profile));
  TN_TRY(author::check_rules(f));
  for (uint32_t n = 0; n < f.nodes().size(); ++n) {
    TN_TRY(check_computed(NodeView(f, n)));
    TN_TRY(check_layouts(NodeView(f, n), profile));
  }
  return {};
}

}  // namespace tenon::sim
