// SPDX-License-Identifier: Apache-2.0
// promises.cpp: keeping promises in order.
//
// Invariant: the timeline advances under the mutex only, so its values never decrease.
#include "promises.hpp"

#include <tenon/author/text.hpp>

namespace tenon::cpu {

using author::text;

uint64_t Promises::make() {
  const std::lock_guard lock(mutex_);
  codes_.push_back(open);
  const uint64_t value = newest() + 1;
  newest_.store(value, std::memory_order_relaxed);
  return value;
}

Status Promises::keep(uint64_t value, int32_t code) {
  const std::lock_guard lock(mutex_);
  if (value == 0 || value > newest()) {
    return Status(TN_INVALID, text("value ", value, " was never promised; the newest promise is ", newest()));
  }
  if (value <= settled_ || codes_[value - settled_ - 1] != open) {
    return Status(TN_INVALID,
                  text("the promise of value ", value, " was already kept: signal each value once"));
  }
  codes_[value - settled_ - 1] = code;
  settle();
  return {};
}

void Promises::settle() {
  while (!codes_.empty() && codes_.front() != open) {
    const int32_t code = codes_.front();
    codes_.pop_front();
    ++settled_;
    if (code == TN_OK || timeline_.failed()) continue;
    timeline_.fail(settled_, Error{.code = code,
                                   .message = text("the promise of value ", settled_, " was broken with ",
                                                   code_name(code), " by its signal")});
    timeline_.advance(newest());
  }
  if (!timeline_.failed()) timeline_.advance(settled_);
}

uint64_t Promises::give_up() noexcept {
  const std::lock_guard lock(mutex_);
  uint64_t unkept = 0;
  for (const int32_t code : codes_) unkept += code == open ? 1 : 0;
  timeline_.advance(newest());
  return unkept;
}

}  // namespace tenon::cpu
