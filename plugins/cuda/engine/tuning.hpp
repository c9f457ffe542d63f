// SPDX-License-Identifier: Apache-2.0
// tuning.hpp: which of several ways to compute the same is the fastest on this device, and how long to look for it.
//
// Options: `cuda.search`: "off", the likeliest is taken; "quick" and "full", a compile that allows no time for tuning looks for
// a quarter of a second, or for ten. `cuda.workspace_limit`, in bytes, beside that of a compile.
// Invariant: tuning only ever chooses among what a library proposed; where it has no memory or no time to measure, the first
// stands.
#pragma once

#include "gpu.hpp"

#include <tenon/author/fragment_view.hpp>
#include <tenon/author/host.hpp>

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

namespace tenon::cuda {

struct Effort {
  bool is_off = false;
  double unasked_ms = 0;
  uint64_t most_workspace = UINT64_MAX;

  // TN_INVALID names key, value and what it may be. [any-thread; does not block; may fail]
  static Result<Effort> of(const author::Host& host);
  // What a compile that asks for so much has. [any-thread; does not block; cannot fail]
  double budget_ms(double asked) const noexcept { return is_off ? 0 : asked > 0 ? asked : unasked_ms; }
  uint64_t workspace_limit(uint64_t asked) const noexcept { return std::min(asked, most_workspace); }
};

// One way. `run` enqueues it, with the places of the fragment's bindings.
struct Trial {
  uint64_t workspace_bytes = 0;
  std::function<Status(CUstream stream, std::span<const CUdeviceptr> places, CUdeviceptr workspace)> run{};
};

struct Fastest {
  size_t index = 0;
  double cost_ns = 0;  // 0: nothing was measured
};

// Runs all of them on zeros in memory of its own, within about `budget_ms`. `trials` is not empty; the context is current.
// [any-thread; may block; may fail]
Result<Fastest> fastest_of(const Gpu& gpu, const author::FragmentView& fragment,
                           const std::vector<Trial>& trials, double budget_ms);

}  // namespace tenon::cuda
