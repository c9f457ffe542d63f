// SPDX-License-Identifier: Apache-2.0
// capture_replays_once.cpp: only the first replay of all does anything.
#include "wrong_capture.hpp"

WRONG_CAPTURE(captures) {
  captures.replay = [](tn_capture* capture, tn_stream* stream, tn_error* e) {
    static bool replayed = false;
    if (replayed && capture != nullptr && stream != nullptr) return int32_t{TN_OK};
    replayed = true;
    return wrong::right_captures().replay(capture, stream, e);
  };
}
