// SPDX-License-Identifier: Apache-2.0
// promise_forgets_failure.cpp: a promise kept with a failure counts as kept.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.signal = [](tn_stream* s, uint64_t value, int32_t, tn_error* e) {
    return wrong::right().stream.signal(s, value, TN_OK, e);
  };
}
