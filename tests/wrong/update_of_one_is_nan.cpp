// SPDX-License-Identifier: Apache-2.0
// update_of_one_is_nan.cpp: running statistics of images that have one value a channel are no numbers.
#include "wrong_cpu.hpp"

#include <limits>
#include <vector>

namespace {

bool has_one_value_a_channel(const tn_tensor& x) {
  return x.rank == 4 && x.dims[0] == 1 && x.dims[2] == 1 && x.dims[3] == 1;
}

}  // namespace

WRONG_CPU(tables) {
  tables.kernel.compile = [](tn_device* d, const tn_fragment* f, const tn_compile_options* o, tn_kernel** k,
                             tn_error* e) {
    const bool spoils = f != nullptr && f->node_count == 1 && f->nodes[0].op == TN_OP_batch_norm_train &&
                        has_one_value_a_channel(f->tensors[f->nodes[0].inputs[0]]);
    if (!spoils) return wrong::right().kernel.compile(d, f, o, k, e);
    tn_node node = f->nodes[0];
    std::vector<tn_attribute> attributes(node.attributes, node.attributes + node.attribute_count);
    for (tn_attribute& one : attributes) {
      if (std::strcmp(one.name, "momentum") == 0) one.f64 = std::numeric_limits<double>::quiet_NaN();
    }
    node.attributes = attributes.data();
    tn_fragment other = *f;
    other.nodes = &node;
    other.identity[0] ^= 0xFF;
    return wrong::right().kernel.compile(d, &other, o, k, e);
  };
}
