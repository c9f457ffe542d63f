// SPDX-License-Identifier: Apache-2.0
// stay.hpp: where a thread is held, for other threads that ask whether it can do anything else meanwhile.
//
// Only a wait without an end is told: who waits for a time may go on at its end, whatever it waited for.
// Invariant: a place that was read was the thread's while it was read; as long as its number is the same, the thread is still there.
#pragma once

#include "runtime/deadline.hpp"
#include "runtime/timeline.hpp"

#include <atomic>
#include <memory>
#include <new>
#include <optional>

namespace tenon::runtime {

class Stay {
 public:
  struct Place {
    uint64_t number = 0;  // another one for each wait of the thread
    const Timeline* line = nullptr;
    uint64_t value = 0;
  };

  // Of the thread that asks; outlives it as long as somebody holds it. [any-thread; does not block; may throw std::bad_alloc]
  static const std::shared_ptr<Stay>& of_this_thread() {
    thread_local const std::shared_ptr<Stay> own = std::make_shared<Stay>();
    return own;
  }
  // None: it waits for nothing, or not without an end. [any-thread; does not block; cannot fail]
  std::optional<Place> place() const noexcept {
    const uint64_t number = number_.load(std::memory_order_acquire);
    if (number % 2 == 0) return std::nullopt;
    const Place found{number, line_.load(std::memory_order_acquire), value_.load(std::memory_order_acquire)};
    if (number_.load(std::memory_order_relaxed) != number) return std::nullopt;
    return found;
  }

  // The thread waits until `value` of `line`, for as long as this lives.
  class Here {
   public:
    Here(const Timeline& line, uint64_t value, const Deadline& deadline) noexcept {
      if (deadline.left_ns() == TN_TIMEOUT_NEVER) enter(line, value);
    }
    Here(const Here&) = delete;
    Here& operator=(const Here&) = delete;
    ~Here() {
      if (stay_ != nullptr) stay_->number_.store(number_ + 1, std::memory_order_release);
    }

   private:
    void enter(const Timeline& line, uint64_t value) noexcept try {
      Stay& stay = *of_this_thread();
      const uint64_t before = stay.number_.load(std::memory_order_relaxed);
      if (before % 2 != 0) return;  // inside of another wait, which is told
      stay.line_.store(&line, std::memory_order_release);
      stay.value_.store(value, std::memory_order_release);
      number_ = before + 1;
      stay.number_.store(number_, std::memory_order_release);
      stay_ = &stay;
    } catch (const std::bad_alloc&) {  // then nobody knows of it
    }
    Stay* stay_ = nullptr;
    uint64_t number_ = 0;
  };

 private:
  // Odd while it waits. A reader that sees a later wait's line or value sees that the number has changed.
  std::atomic<uint64_t> number_{0}, value_{0};
  std::atomic<const Timeline*> line_{nullptr};
};

}  // namespace tenon::runtime
