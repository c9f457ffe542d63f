// SPDX-License-Identifier: Apache-2.0
// copy_keeps_source.cpp: a pageable source is read when the copy runs, not when it is enqueued.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.stream.copy = [](tn_stream* s, const tn_span* dst, const tn_span* src, tn_error* e) {
    if (src == nullptr || src->space != TN_SPACE_HOST_ADDRESS)
      return wrong::right().stream.copy(s, dst, src, e);
    tn_span from = *src;
    from.space = TN_SPACE_DEVICE_ADDRESS;  // host and device share addresses here
    return wrong::right().stream.copy(s, dst, &from, e);
  };
}
