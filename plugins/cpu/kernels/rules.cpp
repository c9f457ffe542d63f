// SPDX-License-Identifier: Apache-2.0
// rules.cpp: what this plugin does not compute. What ops.def forbids is the author framework's to say.
#include "rules.hpp"

#include "families.hpp"

#include <tenon/author/op_rules.hpp>

#include <bitset>

namespace tenon::cpu {

using author::NodeView;
using author::text;

Status check_fragment(const FragmentView& fragment) {
  TN_TRY(author::check_rules(fragment));
  for (uint32_t i = 0; i < fragment.tensors().size(); ++i) {
    const uint32_t layout = fragment.tensors()[i].layout;
    if (layout == 0) continue;
    return Status(TN_UNSUPPORTED,
                  text("tensor ", i, " has private layout ", layout, "; this plugin has none"));
  }
  for (uint32_t n = 0; n < fragment.nodes().size(); ++n) {
    const NodeView node(fragment, n);
    const Family* const family = family_of(node.op());
    if (family == nullptr) return node.unsupported("this op is not computed by the CPU plugin");
    if (family->refuse == nullptr) continue;
    if (const std::string reason = family->refuse(fragment, node.raw()); !reason.empty())
      return node.unsupported(reason);
  }
  return {};
}

Axes axes_of(const tn_node& node, uint32_t rank) {
  std::bitset<TN_MAX_RANK> reduced;
  const std::span<const int64_t> named = *author::attribute_i64s(node, "axes");
  for (const int64_t axis : named) reduced.set(static_cast<size_t>(axis < 0 ? axis + rank : axis));
  Axes out;
  for (uint32_t i = 0; i < rank; ++i) {
    if (reduced[i])
      out.reduced[out.reduced_count++] = i;
    else
      out.kept[out.kept_count++] = i;
  }
  return out;
}

}  // namespace tenon::cpu
