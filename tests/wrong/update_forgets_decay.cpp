// SPDX-License-Identifier: Apache-2.0
// update_forgets_decay.cpp: where several parameters are updated at once, their weights do not decay.
#include "wrong_cpu.hpp"

#include <deque>
#include <vector>

WRONG_CPU(tables) {
  tables.kernel.compile = [](tn_device* d, const tn_fragment* f, const tn_compile_options* o, tn_kernel** k,
                             tn_error* e) {
    if (f == nullptr || f->node_count < 2) return wrong::right().kernel.compile(d, f, o, k, e);
    std::vector<tn_node> nodes(f->nodes, f->nodes + f->node_count);
    std::deque<std::vector<tn_attribute>> kept;
    for (tn_node& node : nodes) {
      auto& attributes = kept.emplace_back(node.attributes, node.attributes + node.attribute_count);
      for (tn_attribute& one : attributes) one.f64 = std::strcmp(one.name, "weight_decay") == 0 ? 0 : one.f64;
      node.attributes = attributes.data();
    }
    tn_fragment other = *f;
    other.nodes = nodes.data();
    other.identity[0] ^= 0xFF;
    return wrong::right().kernel.compile(d, &other, o, k, e);
  };
}
