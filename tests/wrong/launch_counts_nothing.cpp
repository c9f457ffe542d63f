// SPDX-License-Identifier: Apache-2.0
// launch_counts_nothing.cpp: a launch with too few bindings says TN_OK and does nothing.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.kernel.launch = [](tn_kernel* k, tn_stream* s, const tn_span* bindings, uint32_t count,
                            const tn_span* workspace, tn_error* e) {
    const int32_t code = wrong::right().kernel.launch(k, s, bindings, count, workspace, nullptr);
    if (code == TN_INVALID && k != nullptr && s != nullptr && count < 2) return static_cast<int32_t>(TN_OK);
    return code == TN_OK ? code : wrong::right().kernel.launch(k, s, bindings, count, workspace, e);
  };
}
