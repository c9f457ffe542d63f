// SPDX-License-Identifier: Apache-2.0
// capture.hpp: what capturing forbids, and how work and waits become a graph.
//
// Invariant: a call that capturing forbids has invalidated the capture when it is refused, as on the real driver.
#pragma once

#include "driver.hpp"

namespace fakecuda {

// For calls that may disturb a capture (looking at events, allocating, loading): refuses by the thread's mode.
void check_unsafe(Driver& d);
// For calls that no mode allows while the stream, or any of the context, is capturing.
void refuse_while_capturing(const Stream& stream);
void refuse_while_capturing(Driver& d, const Context& context);
// For the legacy default stream, which would have to wait for this stream.
void refuse_implicit(const Stream& stream);

// Adds the stream's next node.
void add_node(Stream& stream, Work work);
// The stream waits for the event, either of them being part of a capture.
void join_capture(Stream& stream, const Event& event);
// The stream is destroyed.
void leave_capture(Driver& d, Stream& stream);
void drop_captures(Driver& d, const Context& context);

}  // namespace fakecuda
