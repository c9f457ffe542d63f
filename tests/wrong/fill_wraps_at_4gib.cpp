// SPDX-License-Identifier: Apache-2.0
// fill_wraps_at_4gib.cpp: a fill counts its offset in 32 bits.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.fill = [](tn_stream* s, const tn_span* dst, uint64_t pattern, uint32_t width, tn_error* e) {
    if (dst == nullptr || dst->space != TN_SPACE_MEMORY)
      return wrong::right().stream.fill(s, dst, pattern, width, e);
    tn_span to = *dst;
    to.offset &= UINT32_MAX;
    return wrong::right().stream.fill(s, &to, pattern, width, e);
  };
}
