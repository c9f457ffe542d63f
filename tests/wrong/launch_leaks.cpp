// SPDX-License-Identifier: Apache-2.0
// launch_leaks.cpp: the arguments of a launch stay on the heap when it has run.
#include "leak.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.kernel.launch = [](tn_kernel* k, tn_stream* s, const tn_span* bindings, uint32_t count,
                            const tn_span* workspace, tn_error* e) {
    wrong::leak(64);
    return wrong::right().kernel.launch(k, s, bindings, count, workspace, e);
  };
}
