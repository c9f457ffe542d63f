// SPDX-License-Identifier: Apache-2.0
// hangs.cpp: a copy of zero bytes never returns.
#include "wrong.hpp"

#include <unistd.h>

WRONG_PLUGIN(tables) {
  tables.stream.copy = [](tn_stream* s, const tn_span* dst, const tn_span* src, tn_error* e) {
    while (dst != nullptr && dst->bytes == 0) pause();
    return wrong::right().stream.copy(s, dst, src, e);
  };
}
