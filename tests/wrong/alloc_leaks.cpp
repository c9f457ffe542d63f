// SPDX-License-Identifier: Apache-2.0
// alloc_leaks.cpp: each allocation is noted down on the heap, and free forgets the note.
#include "leak.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.device.alloc = [](tn_device* d, uint32_t kind, uint64_t bytes, uint64_t alignment, tn_memory** m,
                           tn_error* e) {
    wrong::leak(100);
    return wrong::right().device.alloc(d, kind, bytes, alignment, m, e);
  };
}
