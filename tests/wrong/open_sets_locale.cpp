// SPDX-License-Identifier: Apache-2.0
// open_sets_locale.cpp: opening the device sets the locale of the whole process by its environment.
#include "wrong.hpp"

#include <clocale>

WRONG_PLUGIN(tables) {
  tables.device.open = [](const tn_plugin*, uint32_t ordinal, const tn_device_options* o, tn_device** d,
                          tn_error* e) {
    std::setlocale(LC_ALL, "");
    return wrong::right().device.open(wrong::honest_descriptor(), ordinal, o, d, e);
  };
}
