// SPDX-License-Identifier: Apache-2.0
// loss_hangs.cpp: a sync in progress waits on when the device is lost.
#include "wrong.hpp"

#include <unistd.h>

WRONG_PLUGIN(tables) {
  tables.stream.sync = [](tn_stream* s, uint64_t value, uint64_t timeout_ns, tn_error* e) {
    const int32_t code = wrong::right().stream.sync(s, value, timeout_ns, nullptr);
    while (code == TN_DEVICE_LOST) pause();
    return code == TN_OK ? code : wrong::right().stream.sync(s, value, 0, e);
  };
}
