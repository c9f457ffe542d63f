// SPDX-License-Identifier: Apache-2.0
// crashes.cpp: a fill of 8 bytes of pattern writes to address 8.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.fill = [](tn_stream* s, const tn_span* dst, uint64_t pattern, uint32_t width, tn_error* e) {
    static uint64_t* volatile nowhere = reinterpret_cast<uint64_t*>(uintptr_t{8});
    if (width == 8) *nowhere = pattern;
    return wrong::right().stream.fill(s, dst, pattern, width, e);
  };
}
