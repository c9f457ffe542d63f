// SPDX-License-Identifier: Apache-2.0
// ids_are_one.cpp: there are two devices, and both have the id of the first.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.device.count = [](const tn_plugin*, uint32_t* count, tn_error* e) {
    const int32_t code = wrong::right().device.count(wrong::honest_descriptor(), count, e);
    if (code == TN_OK) *count = 2;
    return code;
  };
  tables.device.info = [](const tn_plugin*, uint32_t ordinal, tn_device_info* info, tn_error* e) {
    return wrong::right().device.info(wrong::honest_descriptor(), ordinal == 1 ? 0 : ordinal, info, e);
  };
  tables.device.open = [](const tn_plugin*, uint32_t ordinal, const tn_device_options* o, tn_device** d,
                          tn_error* e) {
    return wrong::right().device.open(wrong::honest_descriptor(), ordinal == 1 ? 0 : ordinal, o, d, e);
  };
}
