// SPDX-License-Identifier: Apache-2.0
// binary_launch_blocks.cpp: nodes of one input are refused, as where a vendor begins with `add`; and a launch comes back when
// it has run.
#include "wrong.hpp"

#include <cstring>

WRONG_PLUGIN(tables) {
  tables.kernel.supports = [](tn_device* d, const tn_fragment* f, tn_support* out, tn_error* e) {
    const int32_t code = wrong::right().kernel.supports(d, f, out, e);
    if (code != TN_OK || f->node_count != 1 || f->nodes[0].op != TN_OP_identity || out->size < sizeof *out)
      return code;
    out->verdict = TN_SUPPORT_NO;
    std::strcpy(out->reason, "nodes of one input come later");
    return code;
  };
  tables.kernel.launch = wrong::launch_and_wait;
}
