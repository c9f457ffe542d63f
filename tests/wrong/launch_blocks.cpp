// SPDX-License-Identifier: Apache-2.0
// launch_blocks.cpp: a launch comes back when it has run.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.kernel.launch = [](tn_kernel* k, tn_stream* s, const tn_span* bindings, uint32_t count,
                            const tn_span* workspace, tn_error* e) {
    uint64_t value = 0;
    const int32_t code = wrong::right().kernel.launch(k, s, bindings, count, workspace, e);
    if (code != TN_OK || wrong::right().stream.record(s, 0, &value, e) != TN_OK) return code;
    return wrong::right().stream.sync(s, value, TN_TIMEOUT_NEVER, e);
  };
}
