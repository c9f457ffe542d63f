// SPDX-License-Identifier: Apache-2.0
// launches.hpp: the launches of a plan with every span in its place, so that a step looks nothing up.
//
// Invariant: enqueuing allocates nothing and takes no lock.
#pragma once

#include "plan/state.hpp"

namespace tenon::train {

class Launches {
 public:
  Launches() = default;
  explicit Launches(const Plan& plan);

  // Puts the spans of turn 0 or 1 in place: those that the plan's caller binds, by number, and the run's memory.
  // [one thread; does not block; cannot fail]
  void bind(uint32_t turn, std::span<const tn_span> bound, const tn_span& block);
  // Another span for what has this number, in both turns. [one thread; does not block; cannot fail]
  void put(uint32_t number, const tn_span& span);
  // Enqueues launch `at`. [one thread; may block as Kernel::launch; may fail]
  Status enqueue(Stream& stream, uint32_t at, uint32_t turn, Timeline& timeline) const;
  uint32_t count() const noexcept { return static_cast<uint32_t>(plan_.state().launches.size()); }
  // Those that launch something. [any-thread; does not block; cannot fail]
  uint64_t kernels() const noexcept { return count() - plan_.state().views; }

 private:
  Plan plan_{};
  std::vector<size_t> first_{};      // of each launch, among the spans of a turn
  std::vector<tn_span> spans_[2]{};  // of all launches, one after the other
  std::vector<tn_span> workspaces_{};
  std::vector<std::vector<size_t>> bound_{};  // per number: where among the spans
};

}  // namespace tenon::train
