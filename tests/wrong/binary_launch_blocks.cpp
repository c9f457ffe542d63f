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
  tables.kernel.launch = [](tn_kernel* k, tn_stream* s, const tn_span* bindings, uint32_t count,
                            const tn_span* workspace, tn_error* e) {
    uint64_t value = 0;
    const int32_t code = wrong::right().kernel.launch(k, s, bindings, count, workspace, e);
    if (code != TN_OK || wrong::right().stream.record(s, 0, &value, e) != TN_OK) return code;
    return wrong::right().stream.sync(s, value, TN_TIMEOUT_NEVER, e);
  };
}
