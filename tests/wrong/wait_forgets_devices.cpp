// SPDX-License-Identifier: Apache-2.0
// wait_forgets_devices.cpp: a wait for a stream of another device handle says TN_OK and is forgotten.
#include "wrong.hpp"

#include <map>
#include <mutex>

static std::mutex guard;
static std::map<tn_stream*, tn_device*>& homes() {
  static auto* const all =
      new std::map<tn_stream*, tn_device*>;  // outlives whatever the process destroys at its end
  return *all;
}

WRONG_PLUGIN(tables) {
  tables.stream.create = [](tn_device* d, const tn_stream_options* o, tn_stream** s, tn_error* e) {
    const int32_t code = wrong::right().stream.create(d, o, s, e);
    const std::lock_guard lock(guard);
    if (code == TN_OK) homes()[*s] = d;
    return code;
  };
  tables.stream.wait = [](tn_stream* s, tn_stream* other, uint64_t value, tn_error* e) {
    bool apart = false;
    {
      const std::lock_guard lock(guard);
      apart = s != nullptr && other != nullptr && homes()[s] != homes()[other];
    }
    return apart ? static_cast<int32_t>(TN_OK) : wrong::right().stream.wait(s, other, value, e);
  };
}
