// SPDX-License-Identifier: Apache-2.0
// adversary.hpp: which of the tasks that may run is run next, so that a forgotten dependency shows.
//
// For a while it is in one mood, then in another: what was enqueued last comes first; copies come last; one stream
// starves; what others wait for comes last; only what is demanded runs; or no pattern at all.
// Invariant: the choice depends on the seed, on what may run and on what is demanded, never on time.
#pragma once

#include "task.hpp"

#include <random>
#include <unordered_set>

namespace fakecuda {

using Tasks = std::unordered_set<const Task*>;

class Adversary {
 public:
  explicit Adversary(uint64_t seed) : random_(seed * 0x9E3779B97F4A7C15ull + 1) {}
  // An index into `ready`, which is not empty; `needed` tells what the demands wait for, when that is asked.
  size_t pick(const std::vector<TaskPtr>& ready, const std::function<Tasks()>& needed);

 private:
  enum class Mood { any, newest, copies_last, starve, producers_last, needed_only, count };
  void change_mood(const std::vector<TaskPtr>& ready);
  uint64_t liking(const Task& task, const Tasks& needed) const;
  uint64_t draw(uint64_t below) { return random_() % below; }

  std::mt19937_64 random_;
  Mood mood_ = Mood::any;
  uint64_t victim_ = 0;
  uint64_t left_ = 0;  // choices until the next mood
};

}  // namespace fakecuda
