// SPDX-License-Identifier: Apache-2.0
// fused_supports_too_much.cpp: supports takes every fragment of several nodes, compile does not.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.kernel.supports = [](tn_device* d, const tn_fragment* f, tn_support* out, tn_error* e) {
    const int32_t code = wrong::right().kernel.supports(d, f, out, e);
    const bool several = code == TN_OK && f->node_count > 1;
    if (several && out->size >= sizeof *out) out->verdict = TN_SUPPORT_NATIVE;
    return code;
  };
}
