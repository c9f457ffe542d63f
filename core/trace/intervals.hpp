// SPDX-License-Identifier: Apache-2.0
// intervals.hpp: sets of moments: pieces of time put together, taken apart, measured.
//
// Invariant: what is given back is in order, its pieces are not empty, and neighbours neither meet nor overlap.
#pragma once

#include <tenon/trace.hpp>

#include <vector>

namespace tenon::trace {

// All moments of `pieces`, which come in any order and may overlap. [any-thread; does not block; cannot fail]
std::vector<TraceInterval> united(std::vector<TraceInterval> pieces);
// The moments of `from` that are not in `what`; both as `united` gives them. [any-thread; does not block; cannot fail]
std::vector<TraceInterval> without(const std::vector<TraceInterval>& from,
                                   const std::vector<TraceInterval>& what);
// How long they are together, for what `united` gives. [any-thread; does not block; cannot fail]
double length_ns(const std::vector<TraceInterval>& pieces) noexcept;

}  // namespace tenon::trace
