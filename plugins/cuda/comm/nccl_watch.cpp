// SPDX-License-Identifier: Apache-2.0
// nccl_watch.cpp: the thread of a rank that NCCL carries: who looks at groups on their way, and who aborts.
#include "nccl_member.hpp"

#include <tenon/author/text.hpp>

namespace tenon::cuda::comm {

using author::text;

namespace {

constexpr std::chrono::milliseconds nccl_glance{5};

bool is_over(const Context& context, const EventRef& event) {
  return context.driver().cuEventQuery(event.native()) != CUDA_ERROR_NOT_READY;
}

}  // namespace

// Forgets what has ended. With the mutex held.
void NcclMember::tidy() {
  const Context& context = *ticket_.gpu->context();
  const Bound bound(context.driver(), context.handle());
  const Relaxed relaxed(context.driver());
  while (!flights_.empty() && flights_.front().ended && is_over(context, flights_.front().ended))
    flights_.pop_front();
  if (!flights_.empty() && !flights_.front().since && is_over(context, flights_.front().began))
    flights_.front().since = Clock::now();
}

void NcclMember::fail(Error why) {
  const std::lock_guard lock(mutex_);
  if (failure_ || torn_down_) return;
  tidy();
  for (const Flight& flight : flights_) flight.fate->fail(why);
  whole_->fail(why);
  failure_ = std::move(why);
  watched_.notify_all();
}

void NcclMember::look() {
  const Status told = handle_->state();
  if (!told.ok() && told.code() != TN_BUSY) {
    return fail(
        {.code = told.code(),
         .message = text("communicator '", ticket_.name, "', rank ", ticket_.rank, ": ", told.message())});
  }
  bool late = false;
  {
    const std::lock_guard lock(mutex_);
    tidy();
    const auto patience = std::chrono::nanoseconds(std::min(ticket_.timeout_ns, uint64_t{1} << 60));
    late = !flights_.empty() && flights_.front().since && Clock::now() - *flights_.front().since >= patience;
  }
  if (!late) return;
  fail({.code = TN_PEER_LOST,
        .message = text("a group of communicator '", ticket_.name, "' began on rank ", ticket_.rank,
                        " and did not end within ", ticket_.timeout_ns / 1'000'000,
                        " ms: another rank did not come to it, or is lost")});
}

void NcclMember::watch() {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return leaving_ || failure_.has_value(); };
  while (!over()) {
    if (flights_.empty() && !captured_) {
      watched_.wait(lock, [&] { return over() || !flights_.empty() || captured_; });
      continue;
    }
    watched_.wait_for(lock, nccl_glance, over);
    if (over()) break;
    lock.unlock();
    look();
    lock.lock();
  }
  if (failure_) {
    lock.unlock();
    handle_->abort();
    lock.lock();
  }
  torn_down_ = true;
  changed_.notify_all();
}

}  // namespace tenon::cuda::comm
