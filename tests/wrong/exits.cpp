// SPDX-License-Identifier: Apache-2.0
// exits.cpp: an impossible alignment ends the process, successfully.
#include "wrong.hpp"

#include <cstdlib>

WRONG_PLUGIN(tables) {
  tables.device.alloc = [](tn_device* d, uint32_t kind, uint64_t bytes, uint64_t alignment, tn_memory** m,
                           tn_error* e) {
    if (alignment == 3) std::exit(0);
    return wrong::right().device.alloc(d, kind, bytes, alignment, m, e);
  };
}
