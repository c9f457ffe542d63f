// SPDX-License-Identifier: Apache-2.0
// lent.hpp: a callable of the user's that plugins call from any thread, several at a time, until it is let go.
//
// Invariant: it is called without a lock, and never after `let_go` has returned.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tenon::runtime {

template <class Function>
class Lent {
 public:
  explicit Lent(Function function) : function_(std::move(function)), lent_(static_cast<bool>(function_)) {}

  // False when there is nothing to call any more. [any-thread; may block as the callable; cannot fail]
  template <class... Arguments>
  bool call(Arguments&&... arguments) noexcept {
    calls_.fetch_add(1);  // before it is looked at, as `let_go` looks at this after
    const bool lent = lent_.load();
    if (lent) function_(std::forward<Arguments>(arguments)...);
    if (calls_.fetch_sub(1) == 1) calls_.notify_all();
    return lent;
  }

  // Waits for calls underway; not from within one. [any-thread; may block; cannot fail]
  void let_go() noexcept {
    lent_.store(false);
    for (uint64_t underway = calls_.load(); underway != 0; underway = calls_.load()) calls_.wait(underway);
    function_ = nullptr;
  }

 private:
  Function function_;
  std::atomic<bool> lent_;
  std::atomic<uint64_t> calls_{0};
};

}  // namespace tenon::runtime
