// SPDX-License-Identifier: Apache-2.0
// gradient_of_tanh_is_of_sigmoid.cpp: a kernel of tanh_grad computes dy·y·(1 − y).
#include "wrong_cpu.hpp"

WRONG_CPU(tables) {
  tables.kernel.compile = [](tn_device* d, const tn_fragment* f, const tn_compile_options* o, tn_kernel** k,
                             tn_error* e) {
    if (f == nullptr || f->node_count != 1 || f->nodes[0].op != TN_OP_tanh_grad)
      return wrong::right().kernel.compile(d, f, o, k, e);
    tn_node node = f->nodes[0];
    node.op = TN_OP_sigmoid_grad;
    tn_fragment other = *f;
    other.nodes = &node;
    other.identity[0] ^= 0xFF;
    return wrong::right().kernel.compile(d, &other, o, k, e);
  };
}
