// SPDX-License-Identifier: Apache-2.0
// stays_lost.cpp: a fill with 8 bytes of pattern loses the device, for as long as the process lives.
#include "wrong.hpp"

#include <atomic>
#include <cstring>

static std::atomic<bool> lost{false};

static int32_t tell(tn_error* e) {
  if (e != nullptr) {
    e->code = TN_DEVICE_LOST;
    std::strcpy(e->domain, "honest");
    std::strcpy(e->message, "the device is lost: start the process anew");
  }
  return TN_DEVICE_LOST;
}

WRONG_PLUGIN(tables) {
  tables.stream.fill = [](tn_stream* s, const tn_span* dst, uint64_t pattern, uint32_t width, tn_error* e) {
    if (width == 8 && dst->bytes >= 8 && dst->bytes % 8 == 0) lost = true;
    return lost ? tell(e) : wrong::right().stream.fill(s, dst, pattern, width, e);
  };
  tables.device.open = [](const tn_plugin*, uint32_t ordinal, const tn_device_options* o, tn_device** d,
                          tn_error* e) {
    return lost ? tell(e) : wrong::right().device.open(wrong::honest_descriptor(), ordinal, o, d, e);
  };
}
