// SPDX-License-Identifier: Apache-2.0
// fused_answers_waver.cpp: whoever asks about the same nodes again is refused.
#include "wrong.hpp"

#include <cstring>
#include <mutex>

WRONG_PLUGIN(tables) {
  tables.kernel.supports = [](tn_device* d, const tn_fragment* f, tn_support* out, tn_error* e) {
    static std::mutex mutex;
    static uint8_t last[sizeof f->identity];
    const int32_t code = wrong::right().kernel.supports(d, f, out, e);
    if (code != TN_OK || f->node_count < 2 || out->size < sizeof *out) return code;
    const std::lock_guard lock(mutex);
    if (std::memcmp(last, f->identity, sizeof last) == 0) {
      out->verdict = TN_SUPPORT_NO;
      std::strcpy(out->reason, "I said so already");
    }
    std::memcpy(last, f->identity, sizeof last);
    return code;
  };
}
