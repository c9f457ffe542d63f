// SPDX-License-Identifier: Apache-2.0
// talks_to_stderr.cpp: it writes to the standard error of its host. That is a warning, and no failure: a library that came
// with the plugin may do it.
#include "wrong.hpp"

#include <cstdio>

WRONG_PLUGIN(tables) {
  tables.stream.create = [](tn_device* d, const tn_stream_options* o, tn_stream** s, tn_error* e) {
    std::fputs("acme: made a stream\n", stderr);
    return wrong::right().stream.create(d, o, s, e);
  };
}
