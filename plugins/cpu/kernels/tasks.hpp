// SPDX-License-Identifier: Apache-2.0
// tasks.hpp: tasks that whoever is free takes next, so that a disturbed thread costs little.
//
// Invariant: a slot belongs to one thread at a time, and each task runs once.
#pragma once

#include "../engine/team.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tenon::cpu {

struct NoGuard {};

// Calls body(slot, task) for all tasks on at most `slots` threads, each of which holds a Guard meanwhile. The body must not
// throw. [worker thread; blocks; cannot fail]
template <class Guard = NoGuard, class Body>
void run_tasks(const Team& team, uint64_t slots, uint64_t tasks, Body&& body) {
  if (tasks == 0) return;
  std::atomic<uint64_t> next{0};
  team.run(std::min(slots, tasks), 1, [&](uint64_t first, uint64_t end) {
    [[maybe_unused]] const Guard guard;
    for (uint64_t slot = first; slot < end; ++slot) {
      for (uint64_t task = next.fetch_add(1); task < tasks; task = next.fetch_add(1)) body(slot, task);
    }
  });
}

}  // namespace tenon::cpu
