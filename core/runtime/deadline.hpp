// SPDX-License-Identifier: Apache-2.0
// deadline.hpp: until when a call may block.
//
// Invariant: a deadline is a moment, so several blocking steps of one call share one timeout.
#pragma once

#include <tenon/stream.hpp>

#include <algorithm>
#include <chrono>

namespace tenon::runtime {

class Deadline {
 public:
  static Deadline now() noexcept { return Deadline(0); }
  // As now, but content with what a query tells, which may lag: for those who know what to do when it is not enough.
  static Deadline glance() noexcept { return Deadline(0, true); }
  static Deadline never() noexcept { return Deadline(TN_TIMEOUT_NEVER); }
  static Deadline after(Timeout timeout) noexcept {
    if (timeout.count() <= 0) return now();
    if (timeout == forever) return never();
    const uint64_t start = clock_ns(), length = static_cast<uint64_t>(timeout.count());
    return Deadline(length >= TN_TIMEOUT_NEVER - start ? TN_TIMEOUT_NEVER : start + length);
  }

  bool blocks() const noexcept { return at_ != 0; }
  bool glances() const noexcept { return glance_; }
  bool passed() const noexcept { return at_ != TN_TIMEOUT_NEVER && (at_ == 0 || clock_ns() >= at_); }
  // As the ABI wants it.
  uint64_t left_ns() const noexcept {
    if (at_ == 0 || at_ == TN_TIMEOUT_NEVER) return at_;
    const uint64_t time = clock_ns();
    return at_ > time ? at_ - time : 0;
  }

 private:
  explicit Deadline(uint64_t at, bool glance = false) noexcept : at_(at), glance_(glance) {}
  static uint64_t clock_ns() noexcept {
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                 std::chrono::nanoseconds(1));
  }
  uint64_t at_;  // steady clock, ns; 0: now
  bool glance_;
};

}  // namespace tenon::runtime
