// SPDX-License-Identifier: Apache-2.0
// engine.hpp: work that has been enqueued, and who runs it when.
//
// Everything is a task with the tasks it comes after: a stream is no queue, only the last task that each next one names.
// So a task may run exactly when all it comes after are done, and nothing else is promised to anybody.
// With a seed one worker runs what is demanded, in the order that the adversary likes; without one, several workers run
// what they can, oldest first.
// Invariant: all of this is touched under the driver's mutex; only a task's body runs outside of it.
#pragma once

#include "adversary.hpp"
#include "settings.hpp"
#include "task.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace fakecuda {

using Lock = std::unique_lock<std::mutex>;

class Engine {
 public:
  explicit Engine(std::mutex& mutex) : mutex_(mutex) {}

  // Takes up the settings; no work may be pending. The workers of before end first.
  void start(const Settings& settings, Lock& lock);

  // Takes the task; it will run after those in `after`.
  void submit(const TaskPtr& task, const std::vector<TaskPtr>& after);
  // Returns when the task is done.
  void wait(Lock& lock, const TaskPtr& task);
  // Somebody looked whether the task is done: who looks again is polling, and makes it run.
  void look(Task& task);
  // A call was made: the host is not idle.
  void touch() { last_call_ = Clock::now(); }
  bool idle() const { return pending_ == 0; }
  // Held tasks look again at what holds them.
  void wake() { changed_.notify_all(); }

 private:
  void work();
  TaskPtr choose();
  TaskPtr choose_oldest();
  TaskPtr choose_adversarially();
  Tasks needed() const;
  void run(const TaskPtr& task, Lock& lock);
  void finish(const TaskPtr& task);
  bool demanded();
  void stop(Lock& lock);

  std::mutex& mutex_;
  std::condition_variable changed_;  // something is ready, done, demanded or to be stopped
  std::vector<TaskPtr> ready_;       // all they come after is done; some may be held by a value
  std::vector<TaskPtr> demands_;
  std::vector<std::thread> workers_;
  std::optional<Adversary> adversary_;
  std::chrono::nanoseconds slow_{0};
  std::chrono::milliseconds idle_after_{20};
  Clock::time_point last_call_ = Clock::now();
  uint64_t next_id_ = 1;
  size_t pending_ = 0;
  bool stopping_ = false;
};

// Whether this thread is inside a function given to cuLaunchHostFunc, where no call of the driver is allowed.
bool inside_host_function();

}  // namespace fakecuda
