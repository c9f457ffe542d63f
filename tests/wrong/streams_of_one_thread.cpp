// SPDX-License-Identifier: Apache-2.0
// streams_of_one_thread.cpp: whichever thread made the first stream makes all of them.
#include "wrong.hpp"

#include <cstring>
#include <mutex>
#include <thread>

WRONG_PLUGIN(tables) {
  tables.stream.create = [](tn_device* d, const tn_stream_options* o, tn_stream** s, tn_error* e) {
    static const std::thread::id first = std::this_thread::get_id();
    if (std::this_thread::get_id() == first) return wrong::right().stream.create(d, o, s, e);
    if (e != nullptr) {
      e->code = TN_INTERNAL;
      std::strcpy(e->domain, "honest");
      std::strcpy(e->message, "this thread has no context");
    }
    return static_cast<int32_t>(TN_INTERNAL);
  };
}
