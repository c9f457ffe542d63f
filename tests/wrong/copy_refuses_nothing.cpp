// SPDX-License-Identifier: Apache-2.0
// copy_refuses_nothing.cpp: a copy of zero bytes is an error.
#include "wrong.hpp"

#include <cstring>

WRONG_PLUGIN(tables) {
  tables.stream.copy = [](tn_stream* s, const tn_span* dst, const tn_span* src, tn_error* e) {
    if (dst != nullptr && src != nullptr && dst->bytes == 0 && src->bytes == 0) {
      if (e != nullptr) {
        e->code = TN_INVALID;
        std::strcpy(e->domain, "honest");
        std::strcpy(e->message, "there is nothing to copy");
      }
      return static_cast<int32_t>(TN_INVALID);
    }
    return wrong::right().stream.copy(s, dst, src, e);
  };
}
