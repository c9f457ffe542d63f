// SPDX-License-Identifier: Apache-2.0
// rows.cpp: the family of softmax, losses, layer and RMS norm, with elementwise nodes, moves and reductions around them.
//
// Such a node is spelled out first (lowered.hpp), so whatever stands beside it is written as if it were part of it.
// Invariant: what is written computes the spelled-out fragment.
#include "families.hpp"
#include "kernels.hpp"
#include "lowered.hpp"

#include <algorithm>

namespace tenon::cuda {

bool takes_rows(const FragmentView& fragment) {
  return std::ranges::any_of(fragment.nodes(), [](const tn_node& node) { return is_over_rows(node.op); });
}

Status check_row_nodes(const FragmentView& fragment) {
  for (uint32_t n = 0; n < fragment.nodes().size(); ++n) {
    if (!is_over_rows(fragment.nodes()[n].op)) TN_TRY(check_group_node(fragment, n));
  }
  return {};
}

Result<Program> write_rows(const FragmentView& fragment, const Target& target) {
  const Lowered lowered(fragment);
  const FragmentView view = lowered.view();
  for (const Rows rows : {Rows::summed, Rows::kept}) {
    Result<Program> made = write_schedule(view, make_schedule(view, rows), target);
    if (made.ok() || made.code() != TN_UNSUPPORTED) return made;
  }
  return write_schedule(view, make_schedule(view), target);
}

// Sums over rows leave a part for each of the blocks that fill the device, or are split as any reduction is.
uint64_t workspace_of_rows(const FragmentView& fragment, const Target& target) {
  const Lowered lowered(fragment);
  uint64_t out = workspace_of_groups(lowered.view(), target);
  for (const tn_node& node : fragment.nodes()) {
    if (node.op != TN_OP_layer_norm_grad && node.op != TN_OP_rms_norm_grad) continue;
    const uint64_t row = fragment.tensor(node.inputs[2]).elements(),
                   rows = fragment.tensor(node.inputs[0]).elements() / std::max<uint64_t>(row, 1),
                   parts = std::min<uint64_t>(rows, uint64_t{target.multiprocessors} * 2);
    out += 2 * (parts * row * 8 + 255);
  }
  return out;
}

}  // namespace tenon::cuda
