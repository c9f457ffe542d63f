// SPDX-License-Identifier: Apache-2.0
// talks_to_stdout.cpp: it writes to the standard output of its host.
#include "wrong.hpp"

#include <cstdio>

WRONG_PLUGIN(tables) {
  tables.stream.create = [](tn_device* d, const tn_stream_options* o, tn_stream** s, tn_error* e) {
    std::puts("stream created");
    return wrong::right().stream.create(d, o, s, e);
  };
}
