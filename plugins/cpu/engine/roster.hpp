// SPDX-License-Identifier: Apache-2.0
// roster.hpp: all workers of the plugin, and the compiled programs that are no longer wanted but may still be in flight.
//
// A launch counts no reference on its program (that would bounce a cache line between two processors each time); instead
// a retired program outlives everything that was queued when it was retired.
// Invariant: a retired program is freed after every command queued before its retirement has finished.
#pragma once

#include "worker.hpp"

namespace tenon::cpu {

class Roster {
 public:
  Roster() = default;
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;
  ~Roster();

  // [any-thread; may block; may throw bad_alloc]
  void add(std::shared_ptr<Worker> worker);
  void remove(const Worker& worker) noexcept;
  // Finishes all work and ends all threads. [any-thread; blocks; may throw bad_alloc]
  void stop_all();
  // Frees `program` once nothing queued now can be running it. [any-thread; may block; may throw bad_alloc]
  void retire(std::unique_ptr<const Runnable> program);

 private:
  struct Mark {
    Timeline* timeline;  // retained
    uint64_t value;
  };
  struct Retired {
    std::unique_ptr<const Runnable> program;
    std::vector<Mark> marks;
  };
  void sweep_locked() noexcept;

  std::mutex mutex_;
  std::vector<std::shared_ptr<Worker>> workers_;
  std::vector<Retired> retired_;
};

}  // namespace tenon::cpu
