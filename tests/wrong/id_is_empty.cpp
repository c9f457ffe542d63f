// SPDX-License-Identifier: Apache-2.0
// id_is_empty.cpp: the device has a name, and no id.
#include "wrong.hpp"

#include <cstring>

WRONG_PLUGIN(tables) {
  tables.device.info = [](const tn_plugin*, uint32_t ordinal, tn_device_info* info, tn_error* e) {
    const int32_t code = wrong::right().device.info(wrong::honest_descriptor(), ordinal, info, e);
    if (code == TN_OK && info->size >= offsetof(tn_device_info, driver))
      std::memset(info->id, 0, sizeof info->id);
    return code;
  };
}
