// SPDX-License-Identifier: Apache-2.0
// measure.hpp: what a plan is made from: how long a collective takes, and when gradients become ready.
//
// Invariant: what leaves this file is the same on all ranks.
#pragma once

#include "overlap/lane.hpp"

#include <tenon/comm_hook.hpp>
#include <tenon/overlap.hpp>

namespace tenon::overlap {

// The one in the middle: steps meet what else a machine does as often. [any-thread; cannot fail]
double middle_of(std::vector<double> times);
// Whether `target` has the costs that a plan needs. [any-thread; does not block; cannot fail]
bool has_costs(const CommTarget& target, bool sharded) noexcept;
// Gives it some that nothing stands behind, until they are measured. [any-thread; does not block; cannot fail]
void set_nominal_costs(CommTarget& target);
// Times what a plan needs, with zeros, in several sizes up to `bytes`; the slowest rank's times. `hook`, where it has a name,
// is what reduces. [all ranks; blocks; may fail]
Status measure_costs(Device& device, Lane& lane, uint64_t bytes, bool sharded, const CommHook& hook,
                     CommTarget& target);

// Nanoseconds a byte takes to be divided, of f32, where there are `bytes`; the slowest rank's. [all ranks; blocks; may fail]
Result<double> measure_division(Device& device, Lane& lane, uint64_t bytes);

// When gradients became ready, since backward began, in the quickest of some steps.
class Arrivals {
 public:
  explicit Arrivals(size_t gradients = 0) : marks_(gradients), quickest_(gradients) {}

  // A backward begins behind what is on `stream`. [stream's thread; may fail]
  Status begin(Stream& stream);
  // `gradient` is there behind what is on `stream`, or when `when` is reached, if that is one. [stream's thread; may fail]
  Status note(uint32_t gradient, Device& device, Stream& stream, const Point& when);
  // A backward ended with what was noted since the last one. [stream's thread; blocks; may fail]
  Status close();
  // The latest of all ranks, into the gradients of `step`, and forgets them; false: nothing was measured.
  // [all ranks; blocks; may fail]
  Result<bool> take(Device& device, Lane& lane, StepProfile& step);

 private:
  struct Mark {
    Point point{};
    uint64_t host_ns = 0;  // where the device has no clock; 0: not noted
  };
  Result<Mark> mark(Stream& stream) const;
  Result<uint64_t> time_of(const Mark& mark) const;

  Mark begin_{};
  std::vector<Mark> marks_;
  std::vector<double> quickest_;
  Stream aside_{};  // that follows points of other streams
  bool clock_ = true;
  uint32_t backwards_ = 0;
};

}  // namespace tenon::overlap
