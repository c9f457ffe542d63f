// SPDX-License-Identifier: Apache-2.0
// free_leaks.cpp: free forgets the handle and keeps the bytes.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.device.free = [](tn_memory* memory, tn_error* e) {
    if (memory == nullptr) return wrong::right().device.free(memory, e);
    return static_cast<int32_t>(TN_OK);
  };
  tables.device.close = [](tn_device*, tn_error*) { return static_cast<int32_t>(TN_OK); };
}
