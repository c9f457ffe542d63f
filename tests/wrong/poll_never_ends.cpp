// SPDX-License-Identifier: Apache-2.0
// poll_never_ends.cpp: sync with a timeout of 0 does not look: nothing is ever reached.
#include "wrong.hpp"

#include <cstring>

WRONG_PLUGIN(tables) {
  tables.stream.sync = [](tn_stream* s, uint64_t value, uint64_t timeout_ns, tn_error* e) {
    if (timeout_ns != 0 || value == 0) return wrong::right().stream.sync(s, value, timeout_ns, e);
    if (e != nullptr) {
      e->code = TN_TIMEOUT;
      std::strcpy(e->domain, "honest");
      std::strcpy(e->message, "the value was not reached in time: ask again");
    }
    return static_cast<int32_t>(TN_TIMEOUT);
  };
}
