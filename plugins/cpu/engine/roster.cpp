// SPDX-License-Identifier: Apache-2.0
// roster.cpp: starting over, stopping all, and freeing programs late enough.
//
// Invariant: no worker is stopped under the lock, because stopping waits for work that may need another stream.
#include "roster.hpp"

#include <algorithm>

namespace tenon::cpu {

Roster::~Roster() {
  for (const Retired& retired : retired_) {
    for (const Mark& mark : retired.marks) mark.timeline->release();
  }
}

void Roster::add(std::shared_ptr<Worker> worker) {
  const std::lock_guard lock(mutex_);
  workers_.push_back(std::move(worker));
}

void Roster::remove(const Worker& worker) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(workers_, [&](const auto& listed) { return listed.get() == &worker; });
  sweep_locked();
}

void Roster::stop_all() {
  std::vector<std::shared_ptr<Worker>> workers;
  {
    const std::lock_guard lock(mutex_);
    workers = workers_;
  }
  for (const auto& worker : workers) worker->stop();
  const std::lock_guard lock(mutex_);
  sweep_locked();
}

void Roster::retire(std::unique_ptr<const Runnable> program) {
  const std::lock_guard lock(mutex_);
  sweep_locked();
  Retired retired{.program = std::move(program)};
  retired.marks.reserve(workers_.size());
  for (const auto& worker : workers_) {
    const uint64_t queued = worker->queue().published();
    if (worker->timeline().progress() >= queued) continue;
    worker->timeline().retain();
    retired.marks.push_back({&worker->timeline(), queued});
  }
  if (!retired.marks.empty()) retired_.push_back(std::move(retired));
}

void Roster::sweep_locked() noexcept {
  for (Retired& retired : retired_) {
    std::erase_if(retired.marks, [](const Mark& mark) {
      if (mark.timeline->progress() < mark.value) return false;
      mark.timeline->release();
      return true;
    });
  }
  std::erase_if(retired_, [](const Retired& retired) { return retired.marks.empty(); });
}

}  // namespace tenon::cpu
