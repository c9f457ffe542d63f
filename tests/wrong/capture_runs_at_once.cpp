// SPDX-License-Identifier: Apache-2.0
// capture_runs_at_once.cpp: what is captured runs once when the capture ends.
#include "wrong_capture.hpp"

WRONG_CAPTURE(captures) {
  captures.end = [](tn_stream* stream, tn_capture** capture, tn_error* e) {
    const int32_t code = wrong::right_captures().end(stream, capture, e);
    return code == TN_OK ? wrong::right_captures().replay(*capture, stream, e) : code;
  };
}
