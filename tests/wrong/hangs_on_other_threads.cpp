// SPDX-License-Identifier: Apache-2.0
// hangs_on_other_threads.cpp: a stream that is not made by the thread that opened the device is never made.
#include "wrong.hpp"

#include <unistd.h>

WRONG_PLUGIN(tables) {
  tables.stream.create = [](tn_device* d, const tn_stream_options* o, tn_stream** s, tn_error* e) {
    while (gettid() != getpid()) pause();
    return wrong::right().stream.create(d, o, s, e);
  };
}
