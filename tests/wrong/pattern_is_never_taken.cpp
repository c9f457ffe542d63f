// SPDX-License-Identifier: Apache-2.0
// pattern_is_never_taken.cpp: fusions are published, and every fragment of several nodes is refused.
#include "wrong_cpu.hpp"

WRONG_CPU(tables) {
  tables.kernel.supports = [](tn_device* d, const tn_fragment* f, tn_support* out, tn_error* e) {
    const int32_t code = wrong::right().kernel.supports(d, f, out, e);
    if (code != TN_OK || f->node_count < 2 || out->size < sizeof *out) return code;
    out->verdict = TN_SUPPORT_NO;
    std::strcpy(out->reason, "one node at a time");
    return code;
  };
}
