// SPDX-License-Identifier: Apache-2.0
// timeline.cpp: sleeping on a timeline without losing a wake.
//
// A sleeper reads `turn_`, then announces its value in `wake_at_`, then looks at progress; the owner writes progress,
// then looks at `wake_at_`, and changes `turn_` only after it has emptied it.
// Invariant: an announcement that a wake wiped out was made before `turn_` changed, so its sleeper does not fall asleep.
#include "timeline.hpp"

namespace tenon::cpu {

Status Timeline::failure() {
  told_.store(true, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  return Status(Error(error_));
}

Status Timeline::untold_failure() {
  if (!failed() || told_.load(std::memory_order_relaxed)) return {};
  return failure();
}

void Timeline::fail(uint64_t value, Error error) noexcept {
  const std::lock_guard lock(mutex_);
  if (failed()) return;
  error_ = std::move(error);
  error_.flags |= TN_ERROR_ASYNC;
  failed_at_.store(value, std::memory_order_release);
}

bool Timeline::sleep_until(uint64_t value, uint64_t deadline, const std::atomic<bool>* cancelled) noexcept {
  for (;;) {
    const uint32_t turn = turn_.load(std::memory_order_seq_cst);
    uint64_t earliest = wake_at_.load(std::memory_order_seq_cst);
    while (value < earliest && !wake_at_.compare_exchange_weak(earliest, value)) {
    }
    driver::Fence::heavy();
    if (progress() >= value) return true;
    if (cancelled != nullptr && cancelled->load(std::memory_order_acquire)) return false;
    if (deadline != driver::never && driver::now_ns() >= deadline) return false;
    driver::sleep_on(turn_, turn, deadline);
  }
}

void Timeline::disturb() noexcept {
  wake_at_.store(none, std::memory_order_seq_cst);
  turn_.fetch_add(1, std::memory_order_seq_cst);
  driver::wake_all(turn_);
}

}  // namespace tenon::cpu
