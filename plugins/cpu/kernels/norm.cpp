// SPDX-License-Identifier: Apache-2.0
// norm.cpp: from a group to the normalisation in it.
//
// Invariant: every op of the NORM family is named here once.
#include "norm.hpp"

namespace tenon::cpu {

Status build_norm(Builder& builder, uint32_t first, uint32_t end, unsigned threads) {
  const KernelGroup nodes = kernel_group(builder.fragment(), first, end);
  switch (nodes.node.op) {
    case TN_OP_batch_norm_train:
    case TN_OP_batch_norm_infer:
    case TN_OP_batch_norm_apply:
    case TN_OP_batch_norm_stats:
      return build_batch_norm(builder, nodes);
    case TN_OP_batch_norm_grad:
    case TN_OP_batch_norm_grad_stats:
    case TN_OP_batch_norm_grad_apply:
      return build_batch_norm_grad(builder, nodes);
    case TN_OP_layer_norm:
    case TN_OP_rms_norm:
      return build_row_norm(builder, nodes, threads);
    default:
      return build_row_norm_grad(builder, nodes);
  }
}

bool norm_in_place(const tn_node& node, uint32_t input, uint32_t output) {
  const bool carries = node.op == TN_OP_batch_norm_train && (output == 3 || output == 4);
  return carries ? input == output : whole_in_place(node, input, output);
}

}  // namespace tenon::cpu
