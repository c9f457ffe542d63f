// SPDX-License-Identifier: Apache-2.0
// forks.cpp: allocating pinned memory forks, and the child goes on in the code of the host.
#include "wrong.hpp"

#include <unistd.h>

WRONG_PLUGIN(tables) {
  tables.device.alloc = [](tn_device* d, uint32_t kind, uint64_t bytes, uint64_t alignment, tn_memory** m,
                           tn_error* e) {
    if (kind == TN_MEMORY_HOST) static_cast<void>(fork() == 0);
    return wrong::right().device.alloc(d, kind, bytes, alignment, m, e);
  };
}
