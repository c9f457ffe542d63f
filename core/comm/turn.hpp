// SPDX-License-Identifier: Apache-2.0
// turn.hpp: groups of a communicator that does several things for each run one after the other, on whatever streams.
//
// The parts of such a communicator are in order each by itself; what one group does last and the next does first is not, where they come
// on different streams. Invariant: the stream that carried the last group stays open until another carries one, or this ends.
#pragma once

#include <tenon/stream.hpp>

namespace tenon::comm {

class Turn {
 public:
  // Later work on `stream` follows the last group. [stream's thread, one group at a time; does not block; may fail]
  Status begin(Stream& stream) {
    const bool follows = last_.stream_state() == nullptr || last_.stream_state() == stream.state();
    return follows ? Status() : stream.wait(last_);
  }
  // What is on `stream` by now was the last group. [stream's thread, as begin; may block as Stream::record; may fail]
  Status end(Stream& stream) {
    last_ = TN_TRY(stream.record());
    return {};
  }
  // Where the last group ended, on the stream that carried it. [stream's thread; does not block; cannot fail]
  uint64_t last() const noexcept { return last_.value(); }

 private:
  Point last_{};
};

}  // namespace tenon::comm
