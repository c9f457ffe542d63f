// SPDX-License-Identifier: Apache-2.0
// events.cpp: making events, and keeping them.
#include "events.hpp"

#include "context.hpp"

namespace tenon::cuda {

Result<EventRef> EventPool::take(bool timed) {
  {
    const std::lock_guard lock(mutex_);
    auto& shelf = shelves_[timed];
    if (!shelf.empty()) {
      Event* const event = shelf.back();
      shelf.pop_back();
      return EventRef(event);
    }
  }
  // Never CU_EVENT_BLOCKING_SYNC: with it each record takes a place in the stream's queue, and 56 fill it.
  const unsigned flags = timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  auto made = std::make_unique<Event>();
  TN_CUDA_IN(context_, cuEventCreate, &made->native, flags);
  made->pool = this;
  made->timed = timed;
  return EventRef(made.release());
}

Status outlast(const Context& context, const EventRef& event) {
  const Relaxed relaxed(context.driver());
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const CUresult result = context.driver().cuEventQuery(event.native());
    if (result == CUDA_SUCCESS) return {};
    if (result != CUDA_ERROR_NOT_READY) return context.failed(result, "cuEventQuery");
    lie_down(std::chrono::steady_clock::now() - begin);
  }
}

void EventPool::give_back(Event* event) noexcept {
  const std::lock_guard lock(mutex_);
  shelves_[event->timed].push_back(event);
}

void EventPool::clear() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& shelf : shelves_) {
    for (Event* const event : shelf) {
      context_.driver().cuEventDestroy(event->native);
      delete event;
    }
    shelf.clear();
  }
}

}  // namespace tenon::cuda
