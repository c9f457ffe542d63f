// SPDX-License-Identifier: Apache-2.0
// writes_past_workspace.cpp: a kernel of one node asks for 61 bytes of workspace, and writes the one behind them.
#include "wrong.hpp"

static constexpr uint64_t asked = 61;  // no fragment of the honest plugin's needs so many

WRONG_PLUGIN(tables) {
  tables.kernel.info = [](tn_kernel* k, tn_kernel_info* info, tn_error* e) {
    const int32_t code = wrong::right().kernel.info(k, info, e);
    if (code == TN_OK && info->size >= sizeof *info && info->workspace_bytes == 0)
      info->workspace_bytes = asked;
    return code;
  };
  tables.kernel.launch = [](tn_kernel* k, tn_stream* s, const tn_span* bindings, uint32_t n, const tn_span* w,
                            tn_error* e) {
    const bool own = w != nullptr && w->bytes == asked;
    const int32_t code = wrong::right().kernel.launch(k, s, bindings, n, own ? nullptr : w, e);
    if (code != TN_OK || !own) return code;
    const tn_span behind{w->memory, w->offset + asked, 1, w->space, 0};
    return wrong::right().stream.fill(s, &behind, 1, 1, e);
  };
}
