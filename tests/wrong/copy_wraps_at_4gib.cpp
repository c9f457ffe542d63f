// SPDX-License-Identifier: Apache-2.0
// copy_wraps_at_4gib.cpp: a copy counts its offsets in 32 bits.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.copy = [](tn_stream* s, const tn_span* dst, const tn_span* src, tn_error* e) {
    if (dst == nullptr || src == nullptr) return wrong::right().stream.copy(s, dst, src, e);
    tn_span to = *dst, from = *src;
    if (to.space == TN_SPACE_MEMORY) to.offset &= UINT32_MAX;
    if (from.space == TN_SPACE_MEMORY) from.offset &= UINT32_MAX;
    return wrong::right().stream.copy(s, &to, &from, e);
  };
}
