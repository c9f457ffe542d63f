// SPDX-License-Identifier: Apache-2.0
// fused_takes_any_order.cpp: supports says yes to nodes that read what is not made yet.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.kernel.supports = [](tn_device* d, const tn_fragment* f, tn_support* out, tn_error* e) {
    const int32_t code = wrong::right().kernel.supports(d, f, out, nullptr);
    if (code == TN_OK || f == nullptr || out == nullptr || f->node_count < 2)
      return wrong::right().kernel.supports(d, f, out, e);
    if (out->size >= sizeof *out) out->verdict = TN_SUPPORT_NATIVE;
    return int32_t{TN_OK};
  };
}
