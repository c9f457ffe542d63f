// SPDX-License-Identifier: Apache-2.0
// timeline.hpp: how far a stream has come, whether it failed on the way, and who sleeps until it comes further.
//
// A value is the count of commands enqueued so far; `progress` is the count that has finished or was skipped. One thread
// advances it, any thread waits.
// Invariant: progress always reaches every enqueued value, after a failure too, so nobody waits for ever for a poisoned
// stream; whether a value was reached *well* is the question of `failed_at`.
#pragma once

#include "../driver.hpp"

#include <tenon/result.hpp>

#include <mutex>

namespace tenon::cpu {

class Timeline {
 public:
  static constexpr uint64_t none = UINT64_MAX;

  // --- anyone ---
  uint64_t progress() const noexcept { return progress_.load(std::memory_order_acquire); }
  // The first value that was not reached well, or `none`.
  uint64_t failed_at() const noexcept { return failed_at_.load(std::memory_order_acquire); }
  bool failed() const noexcept { return failed_at_.load(std::memory_order_relaxed) != none; }
  // The first failure, flagged ASYNC, and marks it as told. Only after failed().
  // [any-thread; does not block; may throw bad_alloc]
  Status failure();
  // The first failure when nobody has heard of it yet.
  Status untold_failure();

  // Sleeps until progress >= value, `deadline`, or `*cancelled` (followed by `disturb`). True when it is reached.
  // [any-thread; blocks; cannot fail]
  bool sleep_until(uint64_t value, uint64_t deadline, const std::atomic<bool>* cancelled = nullptr) noexcept;
  // Wakes every sleeper to look again. [any-thread; does not block; cannot fail]
  void disturb() noexcept;

  // --- the one that advances it ---
  // A store and a compare, when nobody sleeps. [owner; does not block; cannot fail]
  void advance(uint64_t value) noexcept {
    progress_.store(value, std::memory_order_release);
    driver::Fence::light();
    if (value >= wake_at_.load(std::memory_order_relaxed)) [[unlikely]]
      disturb();
  }
  // Keeps the first failure; call before advancing to `value`. [owner; may block; cannot fail]
  void fail(uint64_t value, Error error) noexcept;

  // --- lifetime: the stream and every command that waits for it hold one ---
  void retain() noexcept { holders_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  ~Timeline() = default;

  // Read by the owner after each command, and so on one line with what it writes then.
  alignas(64) std::atomic<uint64_t> progress_{0};
  std::atomic<uint64_t> wake_at_{none};  // the least value that a sleeper waits for
  std::atomic<uint32_t> turn_{0};        // what sleepers sleep on; changes with every wake

  alignas(64) std::atomic<uint64_t> failed_at_{none};
  std::atomic<bool> told_{false};
  std::atomic<uint32_t> holders_{1};
  std::mutex mutex_;  // of error_
  Error error_;
};

}  // namespace tenon::cpu
