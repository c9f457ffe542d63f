// SPDX-License-Identifier: Apache-2.0
// layout.hpp: in which order of memory a step's images lie where nobody says it, and which orders there are to say.
//
// Invariant: ranks that run the same step on devices of one kind choose the same.
#pragma once

#include <tenon/device.hpp>
#include <tenon/graph.hpp>
#include <tenon/strategy.hpp>

#include <string>

namespace tenon::train {

// Whether `device` has the graph's convolutions quickest where channels lie last. [any-thread; does not block; cannot fail]
bool prefers_channels_last(const Graph& graph, const Strategy& strategy, const Device& device);
// TN_INVALID for a `layout` of a strategy that is neither known to everybody nor a private one of `device`, with the nearest of these.
// [any-thread; does not block; may fail]
Status check_layout(const std::string& layout, const Device& device);

}  // namespace tenon::train
