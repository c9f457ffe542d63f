// SPDX-License-Identifier: Apache-2.0
// pace.hpp: after how long a rank asks whether the others have its oldest group, too.
//
// Asking costs the store a key for ever. So a group is given 0.4 s, or twice as long as the slowest so far took where that is more, but
// never more than a limit. Invariant: each group is asked about once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tenon::comm {

class Pace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::nanoseconds shortest = std::chrono::milliseconds(400);

  explicit Pace(std::chrono::nanoseconds limit) noexcept : limit_(limit) {}

  // At `now` the oldest group that has not ended is number `group`; 0: there is none. Whether it is time to ask about it.
  // [one thread; does not block; cannot fail]
  bool is_long(uint64_t group, Time now) noexcept {
    if (group != group_) {
      if (group_ != 0) slowest_ = std::max(slowest_, now - since_);
      group_ = group;
      since_ = now;
    }
    return group != 0 && group != asked_ && now - since_ >= patience() && now >= again_;
  }
  // It was asked about. [one thread; does not block; cannot fail]
  void asked() noexcept { asked_ = group_; }
  // Nobody answered, so not before `then`. [one thread; does not block; cannot fail]
  void put_off(Time then) noexcept { again_ = then; }
  // What the oldest group is given. [one thread; does not block; cannot fail]
  std::chrono::nanoseconds patience() const noexcept {
    return std::min(limit_, std::max(shortest, 2 * slowest_));
  }

 private:
  std::chrono::nanoseconds limit_, slowest_{0};
  uint64_t group_ = 0, asked_ = 0;
  Time since_{}, again_{};
};

}  // namespace tenon::comm
