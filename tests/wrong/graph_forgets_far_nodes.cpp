// SPDX-License-Identifier: Apache-2.0
// graph_forgets_far_nodes.cpp: of more than forty nodes, additions that come late are multiplications.
#include "wrong.hpp"

#include <vector>

WRONG_PLUGIN(tables) {
  tables.kernel.compile = [](tn_device* device, const tn_fragment* given, const tn_compile_options* options,
                             tn_kernel** kernel, tn_error* e) {
    if (given == nullptr || given->node_count <= 40)
      return wrong::right().kernel.compile(device, given, options, kernel, e);
    std::vector<tn_node> nodes(given->nodes, given->nodes + given->node_count);
    for (size_t i = 40; i < nodes.size(); ++i)
      if (nodes[i].op == TN_OP_add) nodes[i].op = TN_OP_mul;
    tn_fragment changed = *given;
    changed.nodes = nodes.data();
    return wrong::right().kernel.compile(device, &changed, options, kernel, e);
  };
}
