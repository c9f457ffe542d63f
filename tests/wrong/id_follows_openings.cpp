// SPDX-License-Identifier: Apache-2.0
// id_follows_openings.cpp: the device's id counts how often it was opened.
#include "wrong.hpp"

#include <atomic>
#include <cstdio>

static std::atomic<int> opened{0};

WRONG_PLUGIN(tables) {
  tables.device.open = [](const tn_plugin*, uint32_t ordinal, const tn_device_options* o, tn_device** d,
                          tn_error* e) {
    ++opened;
    return wrong::right().device.open(wrong::honest_descriptor(), ordinal, o, d, e);
  };
  tables.device.info = [](const tn_plugin*, uint32_t ordinal, tn_device_info* info, tn_error* e) {
    const int32_t code = wrong::right().device.info(wrong::honest_descriptor(), ordinal, info, e);
    if (code == TN_OK && info->size >= offsetof(tn_device_info, driver))
      std::snprintf(info->id, sizeof info->id, "honest-%d", opened.load());
    return code;
  };
}
