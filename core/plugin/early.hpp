// SPDX-License-Identifier: Apache-2.0
// early.hpp: what TN_TIMEOUT of a stream's sync says: that the answer is still to come, or that the stream failed with it.
//
// Invariant: whoever asks a plugin's stream reads that code here.
#pragma once

#include <tenon/abi.h>

namespace tenon::plugin {

// Whether sync, which said `code`, only came too early: the value may still be reached. A stream may have *failed* with
// TN_TIMEOUT, too (a collective gave a late rank up); `error` then has TN_ERROR_ASYNC.
// [any-thread; does not block; cannot fail]
inline bool is_early(int32_t code, const tn_error& error) noexcept {
  return code == TN_TIMEOUT && (error.flags & TN_ERROR_ASYNC) == 0;
}

}  // namespace tenon::plugin
