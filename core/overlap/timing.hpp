// SPDX-License-Identifier: Apache-2.0
// timing.hpp: from buckets to predicted times: what each collective costs on a target, and when the next forward can run.
//
// Invariant: one stream and a cost table give the same end here as in exact.hpp.
#pragma once

#include "overlap/simulator.hpp"

#include <tenon/overlap.hpp>

#include <span>
#include <string>

namespace tenon::overlap {

// What a bucket means to the link.
struct Load {
  double ready = 0, needed = 0;  // of computing alone
  uint64_t bytes = 0;
  uint32_t stream = 0;
  uint32_t parameter = 0;  // its first

  // Whether the next forward reads it sooner: where nothing says when, in the order of parameters.
  bool read_before(const Load& other) const noexcept {
    return needed != other.needed ? needed < other.needed : parameter < other.parameter;
  }
};

// The collectives of a target that the options leave to choose from.
class Costs {
 public:
  Costs(const CommTarget& target, const OverlapOptions& options);

  // Of the collective before the update, by its cheapest route.
  const CostTable& before_update() const noexcept { return cheapest_; }
  const CostTable& gather() const noexcept { return gather_; }
  const Division& division() const noexcept { return division_; }
  Route route(uint64_t bytes) const noexcept;
  uint32_t ranks_per_group() const noexcept { return ranks_per_group_; }

 private:
  std::vector<CommTarget::Measured> routes_{};
  CostTable cheapest_{}, gather_{};
  Division division_{};
  uint32_t ranks_per_group_ = 0;
};

struct Timing {
  Progress progress{};                   // of backward
  std::vector<Span> sent{}, gathered{};  // one for each load; gathered in sharded mode only
  std::vector<uint32_t> gathers{};       // the order of the gathers
  CommPrediction prediction{};
};

// How so many streams send on `target`. [any-thread; does not block; cannot fail]
Sending sending(uint32_t streams, const CommTarget& target, const OverlapOptions& options) noexcept;

// What the link is asked for: loads in the order in which they are launched. [any-thread; does not block; cannot fail]
std::vector<Transfer> transfers_of(std::span<const Load> loads, const Costs& costs);

// Of loads in the order in which they are launched. [any-thread; does not block; cannot fail]
Timing time_of(std::span<const Load> loads, const StepProfile& step, const Costs& costs,
               const Sending& sending);

// `measured`, whose gradients came at these times of the clock while `plan` sent them, as it would be without collectives.
// [any-thread; does not block; cannot fail]
StepProfile alone(const CommPlan& plan, StepProfile measured, const CommTarget& target);

// Why updates wait for the last bucket, or "".
std::string gate_of(const StepProfile& step);
double backward_of(const StepProfile& step) noexcept;

}  // namespace tenon::overlap
