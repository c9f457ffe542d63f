// SPDX-License-Identifier: Apache-2.0
// id_is_of_this_process.cpp: the device's id is made of the number of the process that asks.
#include "wrong.hpp"

#include <unistd.h>

#include <cstdio>

WRONG_PLUGIN(tables) {
  tables.device.info = [](const tn_plugin*, uint32_t ordinal, tn_device_info* info, tn_error* e) {
    const int32_t code = wrong::right().device.info(wrong::honest_descriptor(), ordinal, info, e);
    if (code == TN_OK && info->size >= offsetof(tn_device_info, driver))
      std::snprintf(info->id, sizeof info->id, "honest-%d", static_cast<int>(getpid()));
    return code;
  };
}
