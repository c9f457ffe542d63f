// SPDX-License-Identifier: Apache-2.0
// no_memory_poisons.cpp: after one allocation that found no memory, none finds any.
#include "wrong.hpp"

#include <atomic>

static std::atomic<bool> poisoned{false};

WRONG_PLUGIN(tables) {
  tables.device.alloc = [](tn_device* d, uint32_t kind, uint64_t bytes, uint64_t alignment, tn_memory** m,
                           tn_error* e) {
    const uint64_t asked = poisoned ? UINT64_MAX : bytes;
    const int32_t code = wrong::right().device.alloc(d, kind, asked, alignment, m, e);
    if (code == TN_NO_MEMORY) poisoned = true;
    return code;
  };
}
