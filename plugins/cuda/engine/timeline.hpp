// SPDX-License-Identifier: Apache-2.0
// timeline.hpp: the values of one stream, and the native events that stand for those not reached yet.
//
// The stream's thread records; any thread asks. A value is one event; values are harvested in order when somebody asks.
// Invariant: `completed` never decreases, and an event is looked at only through a reference, so that it cannot be
// recorded anew meanwhile.
#pragma once

#include "context.hpp"

#include <deque>

namespace tenon::cuda {

class Timeline {
 public:
  explicit Timeline(Context& context) : context_(context) {}
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  uint64_t newest() const noexcept { return newest_.load(std::memory_order_relaxed); }
  // Records the next value on `stream`. [stream's thread; may fail]
  Result<uint64_t> record(CUstream stream, bool timed);
  // A value that stands for nothing but what is already recorded. [stream's thread; cannot fail]
  uint64_t skip() noexcept { return newest_.fetch_add(1, std::memory_order_relaxed) + 1; }

  // Whether `value` is known to be reached, without asking the driver. [any-thread; does not block; cannot fail]
  bool passed(uint64_t value) const noexcept { return completed_.load(std::memory_order_acquire) >= value; }
  // The event to wait for; none when the value is reached. [any-thread; does not block; cannot fail]
  EventRef event_for(uint64_t value) const;
  // The newest reached value. [any-thread; does not block; may fail]
  Result<uint64_t> completed();
  // TN_TIMEOUT when the deadline passes. [any-thread; blocks; may fail]
  Status sync(uint64_t value, uint64_t timeout_ns);
  // [any-thread; does not block; may fail]
  Result<uint64_t> timestamp(uint64_t value);

 private:
  struct Mark {
    uint64_t value = 0;
    EventRef event{};
    std::shared_ptr<const Clock::Origin> origin{};  // of a timed one
  };
  struct Stamp {
    uint64_t value, ns;
  };
  static constexpr size_t stamps_kept = 4096;

  // Takes reached marks off the front; the context is current. Under the mutex, as are the two after it.
  Status harvest();
  // How many marks at the front are reached.
  Result<size_t> count_reached() const;
  Result<bool> is_reached(const Mark& mark) const;
  Status reach(const Mark& mark);
  Status timed_out(uint64_t value, uint64_t timeout_ns) const;

  Context& context_;
  std::atomic<uint64_t> newest_{0}, completed_{0};
  mutable std::mutex mutex_;
  std::deque<Mark> marks_{};
  std::deque<Stamp> stamps_{};
};

}  // namespace tenon::cuda
