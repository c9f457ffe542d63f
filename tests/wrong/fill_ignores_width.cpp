// SPDX-License-Identifier: Apache-2.0
// fill_ignores_width.cpp: every fill repeats the lowest byte of its pattern.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.fill = [](tn_stream* s, const tn_span* dst, uint64_t pattern, uint32_t width, tn_error* e) {
    const bool right = width == 2 || width == 4 || width == 8;
    return wrong::right().stream.fill(s, dst, pattern, right ? 1 : width, e);
  };
}
