// SPDX-License-Identifier: Apache-2.0
// sulks.cpp: after it has once refused a fill, it refuses fills of zero bytes too: wrong only in company.
#include "wrong.hpp"

#include <atomic>
#include <cstring>

static std::atomic<bool> sulking{false};

static int32_t refuse(tn_error* e) {
  if (e != nullptr) {
    e->code = TN_INVALID;
    std::strcpy(e->domain, "honest");
    std::strcpy(e->message, "there is nothing to fill, and there was something wrong before");
  }
  return TN_INVALID;
}

WRONG_PLUGIN(tables) {
  tables.stream.fill = [](tn_stream* s, const tn_span* dst, uint64_t pattern, uint32_t width, tn_error* e) {
    if (sulking && dst != nullptr && dst->bytes == 0) return refuse(e);
    const int32_t said = wrong::right().stream.fill(s, dst, pattern, width, e);
    if (said != TN_OK) sulking = true;
    return said;
  };
}
