// SPDX-License-Identifier: Apache-2.0
// error_overruns.cpp: device.open tells a whole tn_error, whatever size the caller knows.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.device.open = [](const tn_plugin*, uint32_t ordinal, const tn_device_options* o, tn_device** d,
                          tn_error* e) {
    if (e == nullptr || e->size >= sizeof *e)
      return wrong::right().device.open(wrong::honest_descriptor(), ordinal, o, d, e);
    const uint32_t size = e->size;
    e->size = sizeof *e;
    const int32_t code = wrong::right().device.open(wrong::honest_descriptor(), ordinal, o, d, e);
    e->size = size;
    return code;
  };
}
