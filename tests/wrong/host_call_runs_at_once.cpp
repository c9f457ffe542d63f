// SPDX-License-Identifier: Apache-2.0
// host_call_runs_at_once.cpp: a host call runs when it is enqueued, whatever its stream still holds.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.host_call = [](tn_stream* s, void (*call)(void*), void* argument, tn_error* e) {
    if (s == nullptr || call == nullptr) return wrong::right().stream.host_call(s, call, argument, e);
    call(argument);
    return static_cast<int32_t>(TN_OK);
  };
}
