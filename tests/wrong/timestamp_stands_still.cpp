// SPDX-License-Identifier: Apache-2.0
// timestamp_stands_still.cpp: every value has the same time.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.timestamp = [](tn_stream* s, uint64_t value, uint64_t* ns, tn_error* e) {
    const int32_t code = wrong::right().stream.timestamp(s, value, ns, e);
    if (code == TN_OK) *ns = 1000;
    return code;
  };
}
