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
  // A host that waits for long is put to sleep rather than left spinning: see Timeline::sync.
  const unsigned flags =
      CU_EVENT_BLOCKING_SYNC | (timed ? 0u : static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
  auto made = std::make_unique<Event>();
  TN_CUDA_IN(context_, cuEventCreate, &made->native, flags);
  made->pool = this;
  made->timed = timed;
  return EventRef(made.release());
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
