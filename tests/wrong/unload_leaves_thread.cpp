// SPDX-License-Identifier: Apache-2.0
// unload_leaves_thread.cpp: the first device that is opened starts a thread, which shutdown does not end.
#include "wrong.hpp"

#include <unistd.h>

#include <thread>

WRONG_PLUGIN(tables) {
  tables.device.open = [](const tn_plugin*, uint32_t ordinal, const tn_device_options* o, tn_device** d,
                          tn_error* e) {
    [[maybe_unused]] static const bool started = [] {
      std::thread([] {
        while (true) pause();
      }).detach();
      return true;
    }();
    return wrong::right().device.open(wrong::honest_descriptor(), ordinal, o, d, e);
  };
}
