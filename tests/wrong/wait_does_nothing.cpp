// SPDX-License-Identifier: Apache-2.0
// wait_does_nothing.cpp: a wait for another stream is forgotten.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.wait = [](tn_stream* s, tn_stream* other, uint64_t value, tn_error* e) {
    uint64_t reached = 0;
    const int32_t code =
        s != nullptr && other != nullptr ? wrong::right().stream.query(other, &reached, e) : TN_OK;
    if (code != TN_OK) return code;
    return wrong::right().stream.wait(s, other, value > reached && s != other ? 0 : value, e);
  };
}
