// SPDX-License-Identifier: Apache-2.0
// fused_clobbers_input.cpp: a fragment of several nodes claims to work in place, and overwrites what a later node reads.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.kernel.supports = [](tn_device* d, const tn_fragment* f, tn_support* out, tn_error* e) {
    const int32_t code = wrong::right().kernel.supports(d, f, out, e);
    const bool several = code == TN_OK && f->node_count > 1;
    if (several && out->size >= sizeof *out) out->alias_mask = ~uint64_t{0};
    return code;
  };
}
