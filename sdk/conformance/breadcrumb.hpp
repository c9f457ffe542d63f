// SPDX-License-Identifier: Apache-2.0
// breadcrumb.hpp: the calls that a worker is in, in memory that the runner can read when the worker hangs or has died.
//
// Invariant: each thread writes a track of its own, so no thread's call is told as another's; a call is told as in progress
// from a Breadcrumb's beginning to its end, and no longer. Without a runner, and past so many threads, it goes nowhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tenon::conform {

inline constexpr int breadcrumb_descriptor = 4;

// What a thread leaves. `depth` calls are in progress, one inside the other; of these the first two have names. Once it is 0
// again the first name is that of the call which came back last, at `ended_ns`.
struct Track {
  uint32_t taken = 0, depth = 0;
  std::array<uint64_t, 2> began_ns{};  // of those with names; CLOCK_MONOTONIC
  uint64_t ended_ns = 0;
  uint64_t calls = 0;  // that came back
  std::array<std::array<char, 496>, 2> what{};
};
using Tracks = std::array<Track, 24>;
inline constexpr size_t breadcrumb_bytes = sizeof(Tracks);

// Shares the tracks with the runner through `descriptor`, which is closed. [main thread; may block; cannot fail]
void share_breadcrumbs(int descriptor) noexcept;
// Forgets every call that came back, so that what is told is of the case that begins. [main thread; cannot fail]
void sweep_breadcrumbs() noexcept;

// The call `what` is in progress on this thread as long as this lives. [any-thread; does not block; cannot fail]
class Breadcrumb {
 public:
  explicit Breadcrumb(std::string_view what) noexcept;
  Breadcrumb(const Breadcrumb&) = delete;
  Breadcrumb& operator=(const Breadcrumb&) = delete;
  ~Breadcrumb();

 private:
  Track* track_;
};

}  // namespace tenon::conform
