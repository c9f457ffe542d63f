// SPDX-License-Identifier: Apache-2.0
// launch_rounds_upward.cpp: a launch leaves its caller's thread rounding upward.
#include "wrong.hpp"

#include <cfenv>

WRONG_PLUGIN(tables) {
  tables.kernel.launch = [](tn_kernel* k, tn_stream* s, const tn_span* bindings, uint32_t count,
                            const tn_span* workspace, tn_error* e) {
    std::fesetround(FE_UPWARD);
    return wrong::right().kernel.launch(k, s, bindings, count, workspace, e);
  };
}
