// SPDX-License-Identifier: Apache-2.0
// measure.hpp: what a plan is made from: how long a collective takes, and when gradients become ready.
//
// Invariant: what leaves this file is the same on all ranks.
#pragma once

#include "overlap/lane.hpp"

#include <tenon/comm_hook.hpp>
#include <tenon/overlap.hpp>

namespace tenon::overlap {

// Whether `target` has the costs that a plan needs. [any-thread; does not block; cannot fail]
bool has_costs(const CommTarget& target, bool sharded) noexcept;
// Gives it some that nothing stands behind, until they are measured. [any-thread; does not block; cannot fail]
void set_nominal_costs(CommTarget& target);
// Times what a plan needs, with zeros, in several sizes up to `bytes`; the slowest rank's times. `hook`, where it has a name,
// is what reduces. [all ranks; blocks; may fail]
Status measure_costs(Device& device, Lane& lane, uint64_t bytes, bool sharded, const CommHook& hook,
                     CommTarget& target);
// What part of computing stands still while the collective before the update, of at most `bytes`, moves them by way of no group,
// at `target`'s cost; the greatest of all ranks. 0 where nothing is long enough to tell.
// [all ranks; blocks; may fail]
Result<double> measure_occupied(Device& device, Lane& lane, uint64_t bytes, bool sharded,
                                const CommHook& hook, const CommTarget& target);

// When gradients became ready in some steps: the least of what was measured, since the first one of a step.
class Arrivals {
 public:
  explicit Arrivals(size_t gradients = 0) : points_(gradients), host_ns_(gradients), least_ns_(gradients) {}

  // [stream's thread; may fail]
  Status note(uint32_t gradient, Stream& stream);
  // A backward ended with what was noted since the last one. [stream's thread; blocks; may fail]
  Status close();
  // The latest of all ranks, into the gradients of `step`, and forgets them; false: nothing was measured.
  // [all ranks; blocks; may fail]
  Result<bool> take(Device& device, Lane& lane, StepProfile& step);

 private:
  std::vector<Point> points_;
  std::vector<uint64_t> host_ns_;  // where the device has no clock; 0: not noted
  std::vector<double> least_ns_;
  bool clock_ = true;
  uint32_t backwards_ = 0;
};

}  // namespace tenon::overlap
