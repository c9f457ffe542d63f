// SPDX-License-Identifier: Apache-2.0
// timeline.cpp: recording, harvesting, and waiting without asking too often.
#include "timeline.hpp"

#include <tenon/stream.h>
#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::cuda {

using author::text;
using Time = std::chrono::steady_clock;

namespace {

// Reached marks are looked for by `record` itself only when this many have gathered.
constexpr size_t crowd = 64;

}  // namespace

Result<uint64_t> Timeline::record(CUstream stream, bool timed) {
  Mark mark;
  mark.value = newest() + 1;
  mark.event = TN_TRY(context_.events().take(timed));
  if (timed) mark.origin = TN_TRY(context_.clock().origin(context_));
  TN_CUDA_IN(context_, cuEventRecord, mark.event.native(), stream);
  const std::lock_guard lock(mutex_);
  const uint64_t value = mark.value;
  marks_.push_back(std::move(mark));
  newest_.store(value, std::memory_order_relaxed);
  if (marks_.size() % crowd == 0) TN_TRY(harvest());
  return value;
}

EventRef Timeline::event_for(uint64_t value) const {
  if (passed(value)) return {};
  const std::lock_guard lock(mutex_);
  const auto at_least = [](const Mark& mark, uint64_t wanted) { return mark.value < wanted; };
  const auto found = std::lower_bound(marks_.begin(), marks_.end(), value, at_least);
  if (found != marks_.end()) return found->event;
  return marks_.empty() ? EventRef() : marks_.back().event;  // it stands for what was recorded before it
}

Result<bool> Timeline::is_reached(const Mark& mark) const {
  const CUresult result = context_.driver().cuEventQuery(mark.event.native());
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return result == CUDA_SUCCESS;
  return context_.failed(result, "cuEventQuery");
}

// They are reached in order, so few are asked: the newest, the oldest, then those between by halves.
Result<size_t> Timeline::count_reached() const {
  if (marks_.empty() || TN_TRY(is_reached(marks_.back()))) return marks_.size();
  if (!TN_TRY(is_reached(marks_.front()))) return size_t{0};
  size_t reached = 1, open = marks_.size() - 1;  // so many are; this one is not
  while (reached < open) {
    const size_t middle = reached + (open - reached) / 2;
    if (TN_TRY(is_reached(marks_[middle])))
      reached = middle + 1;
    else
      open = middle;
  }
  return reached;
}

Status Timeline::harvest() {
  const Relaxed relaxed(context_.driver());
  for (size_t left = TN_TRY(count_reached()); left > 0; --left) {
    TN_TRY(reach(marks_.front()));
    marks_.pop_front();
  }
  if (marks_.empty()) completed_.store(newest(), std::memory_order_release);
  return {};
}

Status Timeline::reach(const Mark& mark) {
  if (mark.origin != nullptr) {
    const uint64_t time = TN_TRY(Clock::time(context_, *mark.origin, mark.event));
    stamps_.push_back({mark.value, time});
    if (stamps_.size() > stamps_kept) stamps_.pop_front();
  }
  completed_.store(mark.value, std::memory_order_release);
  return {};
}

Result<uint64_t> Timeline::completed() {
  if (passed(newest())) return completed_.load(std::memory_order_acquire);
  const std::lock_guard lock(mutex_);
  TN_TRY(harvest());
  return completed_.load(std::memory_order_acquire);
}

Status Timeline::timed_out(uint64_t value, uint64_t timeout_ns) const {
  return Status(TN_TIMEOUT, text("value ", value, " was not reached in ", timeout_ns,
                                 " ns; the stream is at ", completed_.load(std::memory_order_acquire)));
}

Status Timeline::sync(uint64_t value, uint64_t timeout_ns) {
  if (passed(value)) return {};
  const auto begin = Time::now();
  const bool for_ever = timeout_ns == TN_TIMEOUT_NEVER;
  for (;;) {
    if (TN_TRY(completed()) >= value) return {};
    const std::chrono::nanoseconds spent = Time::now() - begin;
    const auto waited = static_cast<uint64_t>(spent.count());
    if (!for_ever && waited >= timeout_ns) return timed_out(value, timeout_ns);
    const uint64_t left = for_ever ? INT64_MAX : std::min<uint64_t>(timeout_ns - waited, INT64_MAX);
    lie_down(spent, std::chrono::nanoseconds(left));
  }
}

Result<uint64_t> Timeline::timestamp(uint64_t value) {
  const uint64_t reached = TN_TRY(completed());
  const std::lock_guard lock(mutex_);
  const auto at_least = [](const Stamp& stamp, uint64_t wanted) { return stamp.value < wanted; };
  const auto found = std::lower_bound(stamps_.begin(), stamps_.end(), value, at_least);
  if (found != stamps_.end() && found->value == value) return found->ns;
  if (reached < value) {
    return Status(TN_INVALID, text("value ", value, " is not reached yet (the stream is at ", reached,
                                   "): sync it before asking for its time"));
  }
  return Status(TN_INVALID,
                text("value ", value, " has no time: record it with TN_RECORD_TIMED, and ask before ",
                     stamps_kept, " newer ones"));
}

}  // namespace tenon::cuda
