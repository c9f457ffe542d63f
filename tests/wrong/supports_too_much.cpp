// SPDX-License-Identifier: Apache-2.0
// supports_too_much.cpp: supports takes every type of an op, compile does not.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.kernel.supports = [](tn_device* d, const tn_fragment* f, tn_support* out, tn_error* e) {
    const int32_t code = wrong::right().kernel.supports(d, f, out, e);
    const bool add = code == TN_OK && f->node_count == 1 && f->nodes[0].op == TN_OP_add;
    if (add && out->size >= sizeof *out) out->verdict = TN_SUPPORT_NATIVE;
    return code;
  };
}
