// SPDX-License-Identifier: Apache-2.0
// wait_takes_anything.cpp: a wait for a value nobody recorded is taken.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.wait = [](tn_stream* s, tn_stream* other, uint64_t value, tn_error* e) {
    const int32_t code = wrong::right().stream.wait(s, other, value, nullptr);
    if (code == TN_INVALID && s != nullptr && other != nullptr) return static_cast<int32_t>(TN_OK);
    return code == TN_OK ? code : wrong::right().stream.wait(s, other, value, e);
  };
}
