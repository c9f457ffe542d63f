// SPDX-License-Identifier: Apache-2.0
// simulator.hpp: collectives on several streams that share one link, beside what computes.
//
// A collective first waits out its latency, which costs the link nothing, then moves its bytes. `flows` collectives move at
// full speed together, more share: so a second stream hides latencies, and gains bandwidth only where one stream cannot
// fill the link. Where the processors that compute move the bytes, these begin later beside computing and take longer, and what
// is computed comes later. Invariant: on one stream a collective takes its latency and its work from when it can start, unless
// computing is in its way.
#pragma once

#include <tenon/overlap.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::overlap {

struct Transfer {
  double ready = 0;              // computing that comes before
  double after = 0;              // on the clock: not sooner
  double latency = 0, work = 0;  // alone on the link
  uint32_t stream = 0;
};

// On the clock.
struct Span {
  double start = 0, end = 0;
};

// How buckets are sent: everything about a plan but the buckets.
struct Sending {
  uint32_t streams = 1;
  double flows = 1;
  Contention contention{};
  bool sync = false, sharded = false;
};

// How far computing is at each time, by straight lines; without any it keeps up with the clock.
class Progress {
 public:
  double clock(double computed) const noexcept;
  double computed(double clock) const noexcept;
  // Later than the one before, by `clock` in which `computed` was done.
  void advance(double clock, double computed);

 private:
  struct Knot {
    double clock = 0, computed = 0;
  };
  double read(double Knot::*from, double Knot::*to, double at) const noexcept;

  Knot end_{};
  std::vector<Knot> knots_{};
};

struct Simulated {
  std::vector<Span> spans{};
  Progress progress{};
};

// `transfers` in the one order in which they are issued: none before those ahead of it, with `sync` none before those have
// ended. `computing`: how long it takes alone. [any-thread; does not block; cannot fail]
Simulated simulate(std::span<const Transfer> transfers, const Sending& sending, double computing);

}  // namespace tenon::overlap
