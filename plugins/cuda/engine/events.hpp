// SPDX-License-Identifier: Apache-2.0
// events.hpp: a pool of native events, each shared by those who still look at it.
//
// Whether an event can tell the time is chosen when it is taken, so there are two shelves.
// Invariant: an event goes back to its shelf with the last reference, and is recorded anew only then.
#pragma once

#include "../driver.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
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

// Between two looks at what a device does, after `spent` of waiting: asks again at once for about as long as lying down and
// waking cost, and then sleeps for a sixteenth of what has passed, 5 to 100 µs, and for `most` at the most. [any-thread; blocks; cannot fail]
inline void lie_down(std::chrono::nanoseconds spent,
                     std::chrono::nanoseconds most = std::chrono::nanoseconds::max()) {
  using std::chrono::microseconds, std::chrono::nanoseconds;
  if (spent < microseconds(30)) return;
  std::this_thread::sleep_for(
      std::min(most, std::clamp<nanoseconds>(spent / 16, microseconds(5), microseconds(100))));
}
// Waits until the event is over. The context is current. [any-thread; blocks; may fail]
Status outlast(const Context& context, const EventRef& event);

inline EventRef::~EventRef() {
  if (event_ != nullptr && event_->references.fetch_sub(1) == 1) event_->pool->give_back(event_);
}

}  // namespace tenon::cuda
