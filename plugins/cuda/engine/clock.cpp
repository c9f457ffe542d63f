// SPDX-License-Identifier: Apache-2.0
// clock.cpp: moving the origin on.
#include "clock.hpp"

#include "context.hpp"

namespace tenon::cuda {

namespace {

Result<double> distance_ns(const Context& context, const EventRef& from, const EventRef& to) {
  float ms = 0;
  TN_CUDA_IN(context, cuEventElapsedTime, &ms, from.native(), to.native());
  return static_cast<double>(ms) * 1e6;
}

}  // namespace

Result<std::shared_ptr<const Clock::Origin>> Clock::origin(Context& context) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (newest_ != nullptr && now - made_ < lasts) return newest_;
  const Relaxed relaxed(context.driver());
  if (stream_ == nullptr) {
    TN_CUDA_IN(context, cuStreamCreateWithPriority, &stream_, CU_STREAM_NON_BLOCKING,
               context.native_priority(0));
  }
  Origin next;
  next.event = TN_TRY(context.events().take(true));
  TN_CUDA_IN(context, cuEventRecord, next.event.native(), stream_);
  TN_TRY(outlast(context, next.event));
  if (newest_ != nullptr) next.ns = newest_->ns + TN_TRY(distance_ns(context, newest_->event, next.event));
  newest_ = std::make_shared<const Origin>(std::move(next));
  made_ = now;
  return newest_;
}

Result<uint64_t> Clock::time(const Context& context, const Origin& from, const EventRef& event) {
  const double ns = from.ns + TN_TRY(distance_ns(context, from.event, event));
  return ns > 0 ? static_cast<uint64_t>(ns) : 0;
}

void Clock::close(Context& context) noexcept {
  newest_.reset();
  if (stream_ != nullptr) context.driver().cuStreamDestroy(std::exchange(stream_, nullptr));
}

}  // namespace tenon::cuda
