// SPDX-License-Identifier: Apache-2.0
// support_overruns.cpp: supports writes its whole answer, whatever size the caller knows.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.kernel.supports = [](tn_device* d, const tn_fragment* f, tn_support* out, tn_error* e) {
    const uint32_t size = out != nullptr ? out->size : 0;
    if (size != 0 && size < sizeof *out) out->size = sizeof *out;
    const int32_t code = wrong::right().kernel.supports(d, f, out, e);
    if (out != nullptr) out->size = size;
    return code;
  };
}
