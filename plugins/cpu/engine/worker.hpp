// SPDX-License-Identifier: Apache-2.0
// worker.hpp: the thread that serves one stream's queue and advances its timeline.
//
// The thread starts with the first command, sleeps when there is nothing to do, ends at `stop`, and starts again when
// more is fed.
// Invariant: commands run one after another in order; after a failure or `abandon` the rest is skipped, yet counted.
#pragma once

#include "idle.hpp"
#include "queue.hpp"
#include "stamps.hpp"

#include <string>
#include <thread>

namespace tenon::cpu {

class Worker {
 public:
  // `processors` is where the thread may run; empty: anywhere.
  Worker(Crew& crew, std::vector<int> processors, std::string name);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  // Only after stop().
  ~Worker();

  Timeline& timeline() noexcept { return *timeline_; }
  Queue& queue() noexcept { return queue_; }
  const Stamps& stamps() const noexcept { return stamps_; }

  // Publishes the queue's next command, and wakes or starts the thread when it does not run.
  // [feeding thread; does not block; cannot fail: a thread that cannot start poisons the timeline]
  uint64_t publish(Command::Kind kind) noexcept {
    const uint64_t value = queue_.publish(kind);
    driver::Fence::light();
    if (state_.load(std::memory_order_relaxed) != running) [[unlikely]]
      rouse();
    return value;
  }
  // Finishes what is queued, then ends the thread. [any-thread; blocks; cannot fail]
  void stop() noexcept;
  // From now on nothing more starts, and a wait for another stream ends. [feeding thread; does not block; cannot fail]
  void abandon() noexcept;

 private:
  static constexpr uint32_t running = 0, parked = 1, stopped = 2;

  void rouse() noexcept;
  void start_locked() noexcept;
  void serve() noexcept;
  bool idle(uint64_t served) noexcept;
  void park(uint64_t served) noexcept;
  void serve_one(Command& command, uint64_t value) noexcept;
  Status execute(const Command& command, uint64_t value);
  void run_or_poison(Command& command, uint64_t value) noexcept;
  void wait_for(const WaitCommand& wait) noexcept;

  Queue queue_;
  Timeline* timeline_;
  Stamps stamps_;
  Team team_;
  const std::vector<int> processors_;
  const std::string name_;

  alignas(64) std::atomic<uint32_t> state_{stopped};  // read by each publish, written only around idleness
  alignas(64) std::atomic<bool> stopping_{false};
  std::atomic<bool> abandoned_{false};
  std::mutex thread_mutex_;  // of thread_: start, stop
  std::thread thread_;
  std::mutex waiting_mutex_;  // of waiting_for_
  Timeline* waiting_for_ = nullptr;
};

}  // namespace tenon::cpu
