// SPDX-License-Identifier: Apache-2.0
// events.hpp: a pool of native events, each shared by those who still look at it.
//
// Whether an event can tell the time is chosen when it is taken, so there are two shelves.
// Invariant: an event goes back to its shelf with the last reference, and is recorded anew only then.
#pragma once

#include "../driver.hpp"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace tenon::cuda {

class Context;

class EventPool;

struct Event {
  CUevent native = nullptr;
  std::atomic<uint32_t> references{0};
  EventPool* pool = nullptr;
  bool timed = false;
};

// A counted reference. [any-thread]
class EventRef {
 public:
  EventRef() = default;
  explicit EventRef(Event* event) noexcept : event_(event) { event_->references.fetch_add(1); }
  EventRef(const EventRef& other) noexcept : event_(other.event_) {
    if (event_ != nullptr) event_->references.fetch_add(1);
  }
  EventRef(EventRef&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  EventRef& operator=(EventRef other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~EventRef();

  explicit operator bool() const noexcept { return event_ != nullptr; }
  CUevent native() const noexcept { return event_->native; }
  bool timed() const noexcept { return event_->timed; }

 private:
  Event* event_ = nullptr;
};

class EventPool {
 public:
  explicit EventPool(const Context& context) : context_(context) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // An event that nobody looks at. The context is current. [any-thread; may block; may fail]
  Result<EventRef> take(bool timed);
  // Destroys what lies on the shelves. The context is current, and no reference lives.
  void clear() noexcept;

 private:
  friend class EventRef;
  void give_back(Event* event) noexcept;

  const Context& context_;
  std::mutex mutex_;
  std::vector<Event*> shelves_[2]{};  // plain, timed
};

inline EventRef::~EventRef() {
  if (event_ != nullptr && event_->references.fetch_sub(1) == 1) event_->pool->give_back(event_);
}

}  // namespace tenon::cuda
