// SPDX-License-Identifier: Apache-2.0
// launch_ignores_waits.cpp: a launch that follows a wait does not wait; what comes after it does.
#include "wrong.hpp"

#include <map>
#include <mutex>
#include <utility>

static std::mutex mutex;
static std::map<tn_stream*, std::pair<tn_stream*, uint64_t>> waits;  // asked for, and not yet passed on

static int32_t pass_on(tn_stream* s, tn_error* e) {
  std::pair<tn_stream*, uint64_t> wait{};
  {
    const std::lock_guard lock(mutex);
    const auto found = waits.find(s);
    if (found == waits.end()) return TN_OK;
    wait = found->second;
    waits.erase(found);
  }
  return wrong::right().stream.wait(s, wait.first, wait.second, e);
}

WRONG_PLUGIN(tables) {
  tables.stream.wait = [](tn_stream* s, tn_stream* other, uint64_t value, tn_error* e) {
    const int32_t code = pass_on(s, e);
    if (code != TN_OK || s == nullptr || other == nullptr)
      return code != TN_OK ? code : wrong::right().stream.wait(s, other, value, e);
    const std::lock_guard lock(mutex);
    waits[s] = {other, value};
    return code;
  };
  tables.stream.record = [](tn_stream* s, uint32_t flags, uint64_t* value, tn_error* e) {
    const int32_t code = pass_on(s, e);
    return code != TN_OK ? code : wrong::right().stream.record(s, flags, value, e);
  };
  tables.stream.copy = [](tn_stream* s, const tn_span* dst, const tn_span* src, tn_error* e) {
    const int32_t code = pass_on(s, e);
    return code != TN_OK ? code : wrong::right().stream.copy(s, dst, src, e);
  };
}
