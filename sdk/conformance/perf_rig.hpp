// SPDX-License-Identifier: Apache-2.0
// perf_rig.hpp: what every measurement stands on: a device, a stream, a clock, and how much effort to spend.
//
// Invariant: a sample is at least `sample_ns` of work, so the clock's own cost and grain do not show in it.
#pragma once

#include "conformance/objects.hpp"
#include "conformance/perf.hpp"

#include <chrono>
#include <functional>
#include <vector>

namespace tenon::conform {

struct Rig {
  Context& t;
  const Device& device;
  const Stream& stream;
  const Tell& tell;
  bool quick;

  size_t samples() const { return quick ? 9 : 25; }
  double sample_ns() const { return quick ? 1e6 : 5e6; }
  // Bytes of one large buffer: beyond what caches hold, and within what is free.
  uint64_t large() const;
};

// Nanoseconds since an arbitrary moment. [any-thread; does not block; cannot fail]
inline double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Does something `n` times, all of it finished on return, and says how many nanoseconds count.
using Batch_ns = std::function<Result<double>(uint64_t n)>;
// Nanoseconds of one repetition, sample by sample, after a warm-up that finds out how many make a sample.
// [case's thread; blocks; may fail]
Result<std::vector<double>> sampled(const Rig& rig, const Batch_ns& batch);
// A batch that enqueues `n` times and waits for the last.
Batch_ns enqueued(const Rig& rig, const std::function<Status()>& once);
// A raw call of a table, its errors kept: none of the kit's own checks lie inside what is measured.
template <class F>
Status raw(const char* what, F&& call) {
  tn_error error = no_error();
  const int32_t code = std::forward<F>(call)(&error);
  if (code == TN_OK) return {};
  const Status said = status_of(code, error);
  return Status(said.code(), words(what, ": ", said.message()));
}

// Measures `figure` in nanoseconds, divided by `divisor` for its unit. [case's thread; blocks; cannot fail]
void tell_time(const Rig& rig, Figure figure, double divisor, const Batch_ns& batch);
// The same for a rate: `amount` (bytes or operations) per nanosecond, which is in GB/s or GFLOP/s.
void tell_rate(const Rig& rig, Figure figure, double amount, const Batch_ns& batch);
// Tells a figure that could not be measured.
void tell_trouble(const Rig& rig, Figure figure, const Status& why);

// perf_kernels.cpp
void measure_kernels(const Rig& rig);

}  // namespace tenon::conform
