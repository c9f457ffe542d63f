// SPDX-License-Identifier: Apache-2.0
// pattern_is_no_fusion.cpp: fusions are published, and every fragment of several nodes is emulated.
#include "wrong_cpu.hpp"

WRONG_CPU(tables) {
  tables.kernel.supports = [](tn_device* d, const tn_fragment* f, tn_support* out, tn_error* e) {
    const int32_t code = wrong::right().kernel.supports(d, f, out, e);
    if (code != TN_OK || f->node_count < 2 || out->size < sizeof *out || out->verdict == TN_SUPPORT_NO)
      return code;
    out->verdict = TN_SUPPORT_EMULATED;
    std::strcpy(out->reason, "node after node");
    return code;
  };
}
