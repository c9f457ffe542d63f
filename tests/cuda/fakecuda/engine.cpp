// SPDX-License-Identifier: Apache-2.0
// engine.cpp: workers that choose, run and finish tasks.
//
// With a seed nothing runs until a task is demanded (a thread waits for it, or has looked at it twice), or until the host
// has made no call for a while: so work is as late as a device may be, and equal programs are run in equal orders.
#include "engine.hpp"

#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace fakecuda {
namespace {

constexpr size_t free_workers = 4;
constexpr auto look_again = std::chrono::microseconds(50);  // a host's store to a value tells nobody
thread_local bool in_host_function = false;

}  // namespace

bool inside_host_function() { return in_host_function; }

void Engine::start(const Settings& settings, Lock& lock) {
  stop(lock);
  adversary_.reset();
  if (settings.seed) adversary_.emplace(*settings.seed);
  slow_ = std::chrono::nanoseconds(settings.slow_ns);
  idle_after_ = std::chrono::milliseconds(settings.idle_ms);
  for (size_t i = 0; i < (adversary_ ? 1 : free_workers); ++i) workers_.emplace_back([this] { work(); });
}

void Engine::stop(Lock& lock) {
  stopping_ = true;
  changed_.notify_all();
  lock.unlock();
  for (std::thread& worker : workers_) worker.join();
  lock.lock();
  workers_.clear();
  stopping_ = false;
}

void Engine::submit(const TaskPtr& task, const std::vector<TaskPtr>& after) {
  task->id = next_id_++;
  ++pending_;
  for (const TaskPtr& earlier : after) {
    if (earlier == nullptr || earlier->done) continue;
    task->after.push_back(earlier);
    earlier->before.push_back(task);
  }
  task->missing = task->after.size();
  if (task->missing > 0) return;
  ready_.push_back(task);
  changed_.notify_all();
}

void Engine::wait(Lock& lock, const TaskPtr& task) {
  if (task == nullptr || task->done) return;
  demands_.push_back(task);
  changed_.notify_all();
  changed_.wait(lock, [&] { return task->done; });
}

void Engine::look(Task& task) {
  if (task.done || !std::exchange(task.looked_at, true)) return;
  for (const TaskPtr& demand : demands_)
    if (demand.get() == &task) return;
  demands_.push_back(task.shared_from_this());
  changed_.notify_all();
}

bool Engine::demanded() {
  std::erase_if(demands_, [](const TaskPtr& task) { return task->done; });
  return !demands_.empty();
}

// All that the demands wait for, themselves included.
Tasks Engine::needed() const {
  Tasks out;
  std::vector<const Task*> open;
  for (const TaskPtr& task : demands_) open.push_back(task.get());
  while (!open.empty()) {
    const Task* task = open.back();
    open.pop_back();
    if (!out.insert(task).second) continue;
    for (const TaskPtr& earlier : task->after)
      if (!earlier->done) open.push_back(earlier.get());
  }
  return out;
}

TaskPtr Engine::choose_oldest() {
  TaskPtr out;
  for (const TaskPtr& task : ready_)
    if ((out == nullptr || task->id < out->id) && task->free()) out = task;
  return out;
}

TaskPtr Engine::choose_adversarially() {
  if (!demanded() && Clock::now() - last_call_ < idle_after_) return nullptr;
  std::vector<TaskPtr> free;
  for (const TaskPtr& task : ready_)
    if (task->free()) free.push_back(task);
  if (free.empty()) return nullptr;
  // In an order of its own: which task became ready first may depend on how a body was timed.
  std::sort(free.begin(), free.end(), [](const TaskPtr& a, const TaskPtr& b) { return a->id < b->id; });
  return free[adversary_->pick(free, [this] { return needed(); })];
}

TaskPtr Engine::choose() {
  TaskPtr task = adversary_ ? choose_adversarially() : choose_oldest();
  if (task != nullptr) std::erase(ready_, task);
  return task;
}

void Engine::work() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (const TaskPtr task = choose()) {
      run(task, lock);
    } else if (ready_.empty()) {
      changed_.wait(lock);
    } else if (!adversary_ || demanded()) {
      changed_.wait_for(lock, look_again);
    } else {
      changed_.wait_until(lock, std::max(last_call_ + idle_after_, Clock::now()) + look_again);
    }
  }
}

void Engine::run(const TaskPtr& task, Lock& lock) {
  if (task->work.there && !task->faulted() && !task->work.there()) {
    std::fputs("fakecuda: a copy or fill reaches memory that was unmapped or freed before its turn\n",
               stderr);
    task->health->fail(CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  lock.unlock();
  if (slow_.count() > 0) std::this_thread::sleep_for(slow_);
  if (task->work.run && !task->faulted()) {
    in_host_function = task->work.kind == Kind::host;
    task->work.run();
    in_host_function = false;
  }
  lock.lock();
  finish(task);
}

void Engine::finish(const TaskPtr& task) {
  task->done = true;
  task->finished = Clock::now();
  task->after.clear();
  task->work = {};
  --pending_;
  for (const TaskPtr& next : task->before)
    if (--next->missing == 0) ready_.push_back(next);
  task->before.clear();
  changed_.notify_all();
}

}  // namespace fakecuda
