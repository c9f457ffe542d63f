// SPDX-License-Identifier: Apache-2.0
// trial.hpp: the collectives of a step, tried on zeros so that they can be timed.
//
// Invariant: every rank tries the same ones in the same order, with the same sizes.
#pragma once

#include "overlap/lane.hpp"

#include <tenon/comm_hook.hpp>
#include <tenon/device.hpp>
#include <tenon/overlap.hpp>

#include <functional>

namespace tenon::overlap {

// `all` is what takes part: what is reduced, or what the ranks' blocks make; `own` is this rank's block.
using Collective = std::function<Status(Lane& lane, const tn_span& all, const tn_span& own)>;

// Of `hook`, which outlives it, if that has a name.
Collective all_reduce_by(const CommHook& hook);
Collective reduce_scatter();
Collective all_gather();

// As many bytes as move long enough to be timed and no longer than `longest_ns`, at most `most`; 0: even all of them move too
// quickly.
uint64_t telling_size(const CostTable& cost, uint64_t most, double longest_ns = 10'000'000);

class Trial {
 public:
  static constexpr uint64_t smallest = 256, largest = 16 << 20;  // bytes of a trial

  // Of gradients of `bytes`; trials are of as many at most, within smallest and largest. [one thread; may fail]
  static Result<Trial> open(Device& device, Lane& lane, uint64_t bytes);
  uint64_t bytes() const noexcept { return most_; }
  // Enqueues one of `bytes`. [one thread; does not block; may fail]
  Status run(const Collective& collective, uint64_t bytes);
  Lane& lane() noexcept { return *lane_; }

 private:
  Lane* lane_ = nullptr;
  Buffer
      zeros_{};  // more than a trial takes: each finds others than the one before, as cold as gradients are
  uint64_t most_ = 0, at_ = 0;
};

}  // namespace tenon::overlap
