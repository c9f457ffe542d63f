// SPDX-License-Identifier: Apache-2.0
// host_memory_is_a_copy.cpp: the plugin declares HOST_MEMORY, and addresses lead to a shadow of the memory.
#include "wrong.hpp"

static char shadow[2 << 20];

WRONG_PLUGIN(tables) {
  tables.device.address = [](tn_memory* m, uint64_t* address, tn_error* e) {
    const int32_t code = wrong::right().device.address(m, address, e);
    if (code == TN_OK) *address = reinterpret_cast<uintptr_t>(shadow);
    return code;
  };
}
