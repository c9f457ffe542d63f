// SPDX-License-Identifier: Apache-2.0
// clock.hpp: a device's clock against the host's.
//
// Invariant: where both are one clock, times pass unchanged.
#pragma once

#include <tenon/stream.hpp>

#include <cstdint>
#include <string>

namespace tenon::trace {

// A moment on both clocks, as far apart as one call takes.
struct ClockPair {
  uint64_t device_ns = 0, host_ns = 0;
  bool same = false;  // the device's time lay between two of the host's: it is the host's clock
};

// The best of several tries on a stream of its own. TN_UNSUPPORTED for a device without timestamps.
// [stream's thread; blocks; may fail]
Result<ClockPair> pair_clocks(Stream& stream);
// What the host's clock showed at `device_ns`, for a moment about between `first` and `last`.
// [any-thread; does not block; cannot fail]
int64_t host_time(uint64_t device_ns, const ClockPair& first, const ClockPair& last) noexcept;

// Whose monotonic clock this process sees: one name for each boot of a machine. [any-thread; may block; cannot fail]
std::string host_clock();
// What makes the host's time one of the day. [any-thread; does not block; cannot fail]
int64_t utc_offset_ns();

}  // namespace tenon::trace
