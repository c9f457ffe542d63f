// SPDX-License-Identifier: Apache-2.0
// comm_mismatch_hangs.cpp: ranks that do not agree wait for each other.
#include "wrong_comm.hpp"

#include <time.h>

WRONG_COMM(tables) {
  tables.stream.sync = [](tn_stream* s, uint64_t value, uint64_t timeout_ns, tn_error* e) {
    tn_error hidden{};
    hidden.size = sizeof hidden;
    const int32_t code = wrong::right().stream.sync(s, value, timeout_ns, &hidden);
    if (code == TN_MISMATCH) {
      const timespec rest{static_cast<time_t>(timeout_ns / 1'000'000'000),
                          static_cast<long>(timeout_ns % 1'000'000'000)};
      nanosleep(&rest, nullptr);
      return wrong::fail(e, TN_TIMEOUT, "the value was not reached in time: ask again");
    }
    if (code != TN_OK && e != nullptr) *e = hidden;
    return code;
  };
}
