// SPDX-License-Identifier: Apache-2.0
// load_looks_at_nothing.cpp: a kernel is loaded from whatever bytes are there.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.kernel.load = [](tn_device* d, const tn_fragment* f, const void*, uint64_t, tn_kernel** k,
                          tn_error* e) { return wrong::right().kernel.compile(d, f, nullptr, k, e); };
}
