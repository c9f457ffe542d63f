// SPDX-License-Identifier: Apache-2.0
// promises.cpp: keeping promises in order.
#include "promises.hpp"

#include <tenon/stream.h>
#include <tenon/author/text.hpp>

#include <algorithm>
#include <new>

namespace tenon::cuda {

using author::text;

Result<std::atomic<uint64_t>*> Words::take() {
  const std::lock_guard lock(mutex_);
  if (used_ == page) {
    pages_.push_back(TN_TRY(pin_host(context_, page, page)));
    used_ = 0;
  }
  auto* const place = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(pages_.back()->address())) + used_;
  used_ += sizeof(uint64_t);
  return new (place) std::atomic<uint64_t>(0);
}

uint64_t Promises::make() {
  const std::lock_guard lock(mutex_);
  codes_.push_back(open);
  return newest_.fetch_add(1, std::memory_order_relaxed) + 1;
}

Status Promises::keep(uint64_t value, int32_t code) {
  const std::lock_guard lock(mutex_);
  if (value == 0 || value > newest())
    return Status(TN_INVALID, text("value ", value, " was never promised; the newest promise is ", newest()));
  if (value <= settled_ || codes_[value - settled_ - 1] != open) {
    return Status(TN_INVALID,
                  text("the promise of value ", value, " was already kept: signal each value once"));
  }
  codes_[value - settled_ - 1] = code;
  settle();
  changed_.notify_all();
  return {};
}

// After a broken promise everyone may pass: the failure travels with the host.
void Promises::settle() {
  while (!codes_.empty() && codes_.front() != open) {
    const int32_t code = codes_.front();
    codes_.pop_front();
    ++settled_;
    if (code == TN_OK || broken_at_ != UINT64_MAX) continue;
    broken_at_ = settled_;
    broken_ = {.code = code,
               .message = text("the promise of value ", settled_, " was broken with ", code_name(code),
                               " by its signal"),
               .flags = TN_ERROR_ASYNC};
  }
  word_.store(broken_at_ == UINT64_MAX ? settled_ : all, std::memory_order_release);
}

Status Promises::failure() const {
  const std::lock_guard lock(mutex_);
  return broken_at_ == UINT64_MAX ? Status() : Status(broken_);
}

Status Promises::sync(uint64_t value, uint64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  const auto over = [&] { return settled_ >= value || broken_at_ != UINT64_MAX; };
  if (timeout_ns == TN_TIMEOUT_NEVER) {
    changed_.wait(lock, over);
  } else {
    constexpr uint64_t longest = uint64_t{1} << 60;
    changed_.wait_for(lock, std::chrono::nanoseconds(std::min(timeout_ns, longest)), over);
  }
  if (broken_at_ <= value) return Status(broken_);
  if (settled_ >= value) return {};
  return Status(TN_TIMEOUT, text("value ", value, " was not reached in ", timeout_ns,
                                 " ns; nobody has signalled it, and the stream is at ", settled_));
}

uint64_t Promises::give_up() noexcept {
  const std::lock_guard lock(mutex_);
  word_.store(all, std::memory_order_release);
  return static_cast<uint64_t>(std::count(codes_.begin(), codes_.end(), open));
}

}  // namespace tenon::cuda
