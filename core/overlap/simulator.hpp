// SPDX-License-Identifier: Apache-2.0
// simulator.hpp: collectives on several streams that share one link.
//
// A collective first waits out its latency, which costs the link nothing, then moves its bytes. `flows` collectives move at
// full speed together, more share: so a second stream hides latencies, and gains bandwidth only where one stream cannot
// fill the link. Invariant: on one stream a collective takes its latency and its work, from when it can start.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::overlap {

struct Transfer {
  double ready = 0;
  double latency = 0, work = 0;  // alone on the link
  uint32_t stream = 0;
};

struct Span {
  double start = 0, end = 0;
};

// `transfers` in the one order in which they are issued: none before those ahead of it, with `sync` none before those have
// ended. [any-thread; does not block; cannot fail]
std::vector<Span> simulate(std::span<const Transfer> transfers, uint32_t streams, double flows, bool sync);

}  // namespace tenon::overlap
