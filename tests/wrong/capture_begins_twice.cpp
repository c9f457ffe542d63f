// SPDX-License-Identifier: Apache-2.0
// capture_begins_twice.cpp: a second begin on a stream that captures says TN_OK.
#include "wrong_capture.hpp"

WRONG_CAPTURE(captures) {
  captures.begin = [](tn_stream* stream, tn_error* e) {
    const int32_t code = wrong::right_captures().begin(stream, e);
    return code == TN_BUSY ? int32_t{TN_OK} : code;
  };
}
