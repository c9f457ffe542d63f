// SPDX-License-Identifier: Apache-2.0
// traces.hpp: traces made by hand.
#pragma once

#include <tenon/trace.hpp>

#include <string>

namespace tenon::test {

// Adds an event of `rank` to the lane called `stream`, which is made when it is not there.
inline TraceEvent& add(Trace& trace, uint32_t rank, const std::string& stream, TraceKind kind, int64_t begin,
                       int64_t end) {
  const TraceLane wanted{.rank = rank, .device = "cpu:0", .stream = stream};
  uint32_t lane = 0;
  while (lane < trace.lanes.size() && trace.lanes[lane] != wanted) ++lane;
  if (lane == trace.lanes.size()) trace.lanes.push_back(wanted);
  TraceEvent event;
  event.lane = lane;
  event.kind = kind;
  event.name = std::string(name(kind)) + " " + std::to_string(trace.events.size());
  event.begin_ns = begin;
  event.end_ns = end;
  trace.events.push_back(event);
  return trace.events.back();
}

// Rank 0 computes in 100 … 500 and 600 … 800; two collectives in 300 … 700, apart by 50; a wait follows.
//
//   compute    100 ████████████████ 500       600 ████████ 800
//   gradients            300 ██████████ 550 · 600 ████ 700
inline Trace one_rank() {
  Trace trace;
  trace.clock = "here";
  trace.utc_ns = 1'000'000'000'000;
  add(trace, 0, "compute", TraceKind::kernel, 100, 500);
  add(trace, 0, "compute", TraceKind::wait, 500, 600);
  add(trace, 0, "compute", TraceKind::kernel, 600, 800);
  TraceEvent& first = add(trace, 0, "gradients", TraceKind::collective, 300, 550);
  first.bucket = 0;
  first.bytes = 4096;
  first.predicted_ns = 200;
  TraceEvent& second = add(trace, 0, "gradients", TraceKind::collective, 600, 700);
  second.bucket = 1;
  second.bytes = 1024;
  second.predicted_ns = 100;
  return trace;
}

}  // namespace tenon::test
