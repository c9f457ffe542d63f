// SPDX-License-Identifier: Apache-2.0
// info_overruns.cpp: device.info writes its whole struct, whatever size the caller knows.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.device.info = [](const tn_plugin*, uint32_t ordinal, tn_device_info* info, tn_error* e) {
    if (info != nullptr && info->size < sizeof *info) info->size = sizeof *info;
    return wrong::right().device.info(wrong::honest_descriptor(), ordinal, info, e);
  };
}
