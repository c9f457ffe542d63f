// SPDX-License-Identifier: Apache-2.0
// clock.hpp: the one clock of the host: CLOCK_MONOTONIC in nanoseconds, comparable with tn.profile/1's host side; and the time of day,
// for what is laid beside the records of other processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace tenon::base {

// [any-thread; does not block; cannot fail]
inline uint64_t now_ns() noexcept {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

// The time of day, since 1970. [any-thread; does not block; cannot fail]
inline uint64_t wall_ns() noexcept {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}
// The same at the system's last tick, some milliseconds ago at most, for a few nanoseconds where the other takes 20 to 40. Never
// after what wall_ns says then, and the same for all processes. [any-thread; does not block; cannot fail]
inline uint64_t wall_tick_ns() noexcept {
#if defined(CLOCK_REALTIME_COARSE)
  timespec tick{};
  if (clock_gettime(CLOCK_REALTIME_COARSE, &tick) == 0)
    return static_cast<uint64_t>(tick.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(tick.tv_nsec);
#endif
  return wall_ns();
}

// A moment to be done by. Safe with timeouts so long that adding them to now would wrap.
class Deadline {
 public:
  explicit Deadline(std::chrono::nanoseconds from_now) noexcept {
    const uint64_t now = now_ns(), wait = from_now.count() < 0 ? 0 : static_cast<uint64_t>(from_now.count());
    at_ = wait > UINT64_MAX - now ? UINT64_MAX : now + wait;
  }
  bool passed() const noexcept { return now_ns() >= at_; }
  std::chrono::nanoseconds left() const noexcept {
    const uint64_t now = now_ns();
    return std::chrono::nanoseconds(now >= at_ ? 0 : static_cast<int64_t>(at_ - now));
  }

 private:
  uint64_t at_;
};

}  // namespace tenon::base
