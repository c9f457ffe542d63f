// SPDX-License-Identifier: Apache-2.0
// fate.hpp: what becomes of work that others may spoil after it was enqueued: a communicator's group.
//
// Whoever enqueued it keeps one reference and its stream another; the stream fails with it.
// Invariant: the first failure stays.
#pragma once

#include <tenon/result.hpp>

#include <atomic>
#include <mutex>
#include <optional>

namespace tenon::cuda {

class Fate {
 public:
  // [any-thread; does not block; cannot fail]
  void fail(const Error& why) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = why;
    failed_.store(true, std::memory_order_release);
  }
  // [any-thread; does not block; may fail]
  Status failure() const {
    if (!failed_.load(std::memory_order_acquire)) return {};
    const std::lock_guard lock(mutex_);
    return Status(*failure_);
  }

 private:
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  std::optional<Error> failure_{};
};

}  // namespace tenon::cuda
