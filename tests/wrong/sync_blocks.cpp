// SPDX-License-Identifier: Apache-2.0
// sync_blocks.cpp: sync knows no deadline.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.sync = [](tn_stream* s, uint64_t value, uint64_t, tn_error* e) {
    return wrong::right().stream.sync(s, value, TN_TIMEOUT_NEVER, e);
  };
}
