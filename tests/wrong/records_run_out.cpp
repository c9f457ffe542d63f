// SPDX-License-Identifier: Apache-2.0
// records_run_out.cpp: after 200 records without a sync there is no event left, and no limit says so.
#include "wrong.hpp"

#include <atomic>
#include <cstring>

static std::atomic<int> outstanding{0};

WRONG_PLUGIN(tables) {
  tables.stream.record = [](tn_stream* s, uint32_t flags, uint64_t* value, tn_error* e) {
    if (++outstanding <= 200) return wrong::right().stream.record(s, flags, value, e);
    if (e != nullptr) {
      e->code = TN_NO_MEMORY;
      std::strcpy(e->domain, "honest");
      std::strcpy(e->message, "no event is left: sync a value");
    }
    return static_cast<int32_t>(TN_NO_MEMORY);
  };
  tables.stream.sync = [](tn_stream* s, uint64_t value, uint64_t timeout_ns, tn_error* e) {
    outstanding = 0;
    return wrong::right().stream.sync(s, value, timeout_ns, e);
  };
}
