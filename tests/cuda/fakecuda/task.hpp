// SPDX-License-Identifier: Apache-2.0
// task.hpp: one piece of a device's work.
//
// Invariant: a task that is done holds on to no other task, so a long history costs nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace fakecuda {

using Clock = std::chrono::steady_clock;

enum class Kind { record, join, copy, fill, kernel, host, value };

// Whether a stream has begun with such work: a word that is written or waited for, a record and a host's call do not count.
constexpr bool begins(Kind kind) { return kind == Kind::kernel || kind == Kind::copy || kind == Kind::fill; }

// What there is to do; a captured graph keeps it and does it again at each launch.
struct Work {
  Kind kind = Kind::join;
  std::function<void()> run{};    // empty: it only marks a place
  std::function<bool()> holds{};  // the condition for it to begin, beyond its place; empty: none
  std::function<bool()>
      there{};  // whether the memory it touches still is; asked under the driver's mutex; empty: yes
};

// Shared by a context's tasks: a context that has faulted does no more work.
struct Health {
  std::atomic<int> fault{0};  // a CUresult; the first one stays
  void fail(int code) {
    int none = 0;
    fault.compare_exchange_strong(none, code);
  }
};

struct Task : std::enable_shared_from_this<Task> {
  uint64_t id = 0;  // in the order of the calls
  uint64_t stream = 0;
  Work work{};
  std::shared_ptr<Health> health{};
  std::vector<std::shared_ptr<Task>> after{};   // those that are not done
  std::vector<std::shared_ptr<Task>> before{};  // those that come after this one
  size_t missing = 0;                           // of `after`
  bool done = false;
  bool looked_at = false;
  Clock::time_point finished{};

  bool faulted() const { return health != nullptr && health->fault != 0; }
  bool free() const { return !work.holds || faulted() || work.holds(); }
};

using TaskPtr = std::shared_ptr<Task>;

}  // namespace fakecuda
