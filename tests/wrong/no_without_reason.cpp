// SPDX-License-Identifier: Apache-2.0
// no_without_reason.cpp: supports refuses without a word.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.kernel.supports = [](tn_device* d, const tn_fragment* f, tn_support* out, tn_error* e) {
    const int32_t code = wrong::right().kernel.supports(d, f, out, e);
    if (code == TN_OK && out->size >= sizeof *out) out->reason[0] = 0;
    return code;
  };
}
