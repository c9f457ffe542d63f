// SPDX-License-Identifier: Apache-2.0
// open_sets_umask.cpp: opening the device sets the process's umask, for files of its own.
#include "wrong.hpp"

#include <sys/stat.h>

WRONG_PLUGIN(tables) {
  tables.device.open = [](const tn_plugin*, uint32_t ordinal, const tn_device_options* o, tn_device** d,
                          tn_error* e) {
    umask(0);
    return wrong::right().device.open(wrong::honest_descriptor(), ordinal, o, d, e);
  };
}
