// SPDX-License-Identifier: Apache-2.0
// promises.hpp: a timeline that the host advances instead of a worker.
//
// Promises may be kept in any order and complete in order of value.
// Invariant: a broken promise poisons at its own place in the order; what was promised after it is passed over, so nobody
// waits for it for ever.
#pragma once

#include "timeline.hpp"

#include <deque>

namespace tenon::cpu {

class Promises {
 public:
  explicit Promises(Timeline& timeline) noexcept : timeline_(timeline) {}

  // [stream's thread; may block; may throw bad_alloc]
  uint64_t make();
  uint64_t newest() const noexcept { return newest_.load(std::memory_order_relaxed); }
  // TN_INVALID for a value kept before. [any-thread; does not block; may fail]
  Status keep(uint64_t value, int32_t code);
  // Passes over what was never kept and returns how many that were. [stream's thread; may block; cannot fail]
  uint64_t give_up() noexcept;

 private:
  static constexpr int32_t open = -1;
  void settle();

  Timeline& timeline_;
  std::mutex mutex_;
  std::deque<int32_t> codes_;  // of the promises past `settled_`: open, or the code they were kept with
  uint64_t settled_ = 0;
  std::atomic<uint64_t> newest_{0};
};

}  // namespace tenon::cpu
