// SPDX-License-Identifier: Apache-2.0
// measure.hpp: what all parts of the CUDA benchmark measure on, and by.
//
// Invariant: a time is the device's own, between two records on the stream of the work.
#pragma once

#include "../peer.hpp"
#include "bare.hpp"

#include <tenon/tenon.hpp>

namespace bench {

struct Bench {
  tenon::Device device;
  tenon::Stream stream;
  const Bare& bare;
  uint64_t bytes;  // of one array of a copy
};

// The device's own time of `work`.
template <class Work>
double device_ns(tenon::Stream& stream, Work&& work) {
  const tenon::Point begin = *stream.record(tenon::Timed::yes);
  work();
  const tenon::Point end = *stream.record(tenon::Timed::yes);
  static_cast<void>(end.sync());
  return static_cast<double>(*end.timestamp() - *begin.timestamp());
}

// A row for each workload and way of torch's; `part` as in workloads.hpp. [one thread; blocks]
void workload_rows(Bench& b, Peer& torch, int64_t part);
// A hundred small launches, captured and replayed. [one thread; blocks]
void replay_row(Bench& b, Peer& torch);

}  // namespace bench
