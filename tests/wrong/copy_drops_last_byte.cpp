// SPDX-License-Identifier: Apache-2.0
// copy_drops_last_byte.cpp: a copy leaves its last byte behind.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.copy = [](tn_stream* s, const tn_span* dst, const tn_span* src, tn_error* e) {
    if (dst == nullptr || src == nullptr || dst->bytes < 2 || src->bytes != dst->bytes) {
      return wrong::right().stream.copy(s, dst, src, e);
    }
    tn_span to = *dst, from = *src;
    --to.bytes;
    --from.bytes;
    return wrong::right().stream.copy(s, &to, &from, e);
  };
}
