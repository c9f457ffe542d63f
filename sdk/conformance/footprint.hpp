// SPDX-License-Identifier: Apache-2.0
// footprint.hpp: what this process holds of the host's memory, and whether it grows with every round of something.
//
// Invariant: what is taken once and kept (a cache, a pool, a thread's arena) is no leak, and neither is what grows ever more
// slowly; only what goes on growing at one pace is. A process that has no way to look skips the case.
#pragma once

#include "conformance/context.hpp"

#include <functional>
#include <span>

namespace tenon::conform {

// One reading, in bytes.
struct Footprint {
  uint64_t heap = 0;      // in use, of what malloc and new gave out
  uint64_t resident = 0;  // private pages in RAM: what was taken without malloc, too
};

// Which of the two this process can be read by: a sanitizer keeps what was freed, another malloc tells glibc nothing.
struct Gauges {
  bool heap = false, resident = false;
};

// [any-thread; may block; cannot fail]
Footprint footprint();
Gauges gauges();
// Bytes per round that `readings` go on growing by, one before each window of `rounds` rounds and one behind the last; 0 where
// a window grew by less than `least` bytes, or by less than half of what the windows grew by on average.
// [any-thread; does not block; cannot fail]
double steady_growth(std::span<const uint64_t> readings, uint64_t rounds, uint64_t least);
// Does `round`, which is made of `calls`, again and again, and fails the case where the host's memory goes on growing with it.
// `remedy` ends the story. [case's thread; may block; may fail]
Status leaves_nothing(Context& t, const std::string& calls, const std::string& remedy,
                      const std::function<Status()>& round);

}  // namespace tenon::conform
