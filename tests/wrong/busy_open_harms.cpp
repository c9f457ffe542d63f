// SPDX-License-Identifier: Apache-2.0
// busy_open_harms.cpp: the device is exclusive, and an open that is refused takes the first handle's memory away.
#include "wrong.hpp"

#include <atomic>
#include <cstring>

static std::atomic<bool> attached{false}, harmed{false};

static int32_t fail(tn_error* e, int32_t code, const char* message) {
  if (e != nullptr) {
    e->code = code;
    std::strcpy(e->domain, "honest");
    std::strcpy(e->message, message);
  }
  return code;
}

WRONG_PLUGIN(tables) {
  tables.device.open = [](const tn_plugin*, uint32_t ordinal, const tn_device_options* o, tn_device** d,
                          tn_error* e) {
    if (attached) {
      harmed = true;
      return fail(e, TN_BUSY, "device 0 is attached already: close the other handle");
    }
    const int32_t code = wrong::right().device.open(wrong::honest_descriptor(), ordinal, o, d, e);
    attached = code == TN_OK;
    return code;
  };
  tables.device.close = [](tn_device* d, tn_error* e) {
    const int32_t code = wrong::right().device.close(d, e);
    if (code == TN_OK) attached = harmed = false;
    return code;
  };
  tables.device.alloc = [](tn_device* d, uint32_t kind, uint64_t bytes, uint64_t alignment, tn_memory** m,
                           tn_error* e) {
    if (harmed) return fail(e, TN_INTERNAL, "device 0 was attached a second time: close it");
    return wrong::right().device.alloc(d, kind, bytes, alignment, m, e);
  };
}
