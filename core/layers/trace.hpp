// SPDX-License-Identifier: Apache-2.0
// trace.hpp: the layer that writes down when each call began and ended, as a file for Perfetto or chrome://tracing.
//
// One track per thread of the host: calls with stream, kernel, bytes and code. With ";device" one track per stream, too:
// when copies, fills and launches ran, as far as the plugin takes timestamps (each is put between two timed values).
// Invariant: memory is bounded: a thread keeps its newest events, and the file says how many were dropped.
#pragma once

#include "layers/layer.hpp"

namespace tenon::layers {

inline constexpr uint64_t default_trace_events = 65536;  // per thread

// For what stands after "trace=": FILE, then ";events=N" and ";device". The file is written when the layer finishes, and
// tried at once. TN_INVALID for a wrong part or a file that cannot be written. [any-thread; may block; may fail]
Result<std::unique_ptr<Layer>> make_trace(std::string_view argument, Log log);

}  // namespace tenon::layers
