// SPDX-License-Identifier: Apache-2.0
// closes_descriptors.cpp: creating a stream closes every file descriptor of the process.
#include "wrong.hpp"

#include <unistd.h>

WRONG_PLUGIN(tables) {
  tables.stream.create = [](tn_device* d, const tn_stream_options* o, tn_stream** s, tn_error* e) {
    for (int descriptor = 0; descriptor < 256; ++descriptor) close(descriptor);
    return wrong::right().stream.create(d, o, s, e);
  };
}
