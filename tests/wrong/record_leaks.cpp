// SPDX-License-Identifier: Apache-2.0
// record_leaks.cpp: each record makes an event, which is not given back when it is reached.
#include "leak.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.record = [](tn_stream* s, uint32_t flags, uint64_t* value, tn_error* e) {
    wrong::leak(48);
    return wrong::right().stream.record(s, flags, value, e);
  };
}
