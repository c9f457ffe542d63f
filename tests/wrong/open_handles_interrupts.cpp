// SPDX-License-Identifier: Apache-2.0
// open_handles_interrupts.cpp: opening the device takes SIGINT for the plugin, so that nobody can stop the program.
#include "wrong.hpp"

#include <csignal>

WRONG_PLUGIN(tables) {
  tables.device.open = [](const tn_plugin*, uint32_t ordinal, const tn_device_options* o, tn_device** d,
                          tn_error* e) {
    std::signal(SIGINT, [](int) {});
    return wrong::right().device.open(wrong::honest_descriptor(), ordinal, o, d, e);
  };
}
