// SPDX-License-Identifier: Apache-2.0
// alignment_lies.cpp: the limits promise more alignment than alloc grants.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.device.limits = [](tn_device* d, tn_device_limits* limits, tn_error* e) {
    const int32_t code = wrong::right().device.limits(d, limits, e);
    if (code == TN_OK && limits->size >= sizeof *limits) limits->alignment = 65536;
    return code;
  };
}
