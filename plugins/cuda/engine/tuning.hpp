// SPDX-License-Identifier: Apache-2.0
// tuning.hpp: which of several picks is the fastest on this device.
//
// Invariant: tuning only ever chooses among picks that the library proposed; where it has no memory or no time to measure, the
// first stands.
#pragma once

#include "problem.hpp"

namespace tenon::cuda {

// Runs the picks on zeros in memory of its own, within about `budget_ms`, and gives the fastest with its time. `bytes` are
// those of the product's bindings. `picks` is not empty; the context is current. [any-thread; may block; may fail]
Result<Pick> fastest_of(const std::vector<Pick>& picks, Problem& problem, const std::vector<uint64_t>& bytes,
                        double budget_ms);

}  // namespace tenon::cuda
