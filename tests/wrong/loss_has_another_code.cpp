// SPDX-License-Identifier: Apache-2.0
// loss_has_another_code.cpp: once the device is lost, record says TN_INTERNAL.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.record = [](tn_stream* s, uint32_t flags, uint64_t* value, tn_error* e) {
    const int32_t code = wrong::right().stream.record(s, flags, value, e);
    if (code != TN_DEVICE_LOST) return code;
    if (e != nullptr) e->code = TN_INTERNAL;
    return static_cast<int32_t>(TN_INTERNAL);
  };
}
