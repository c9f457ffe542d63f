// SPDX-License-Identifier: Apache-2.0
// layout.cpp: see layout.hpp.
#include "train/layout.hpp"

#include "graph/columns.hpp"

#include <algorithm>

namespace tenon::train {

bool prefers_channels_last(const Graph& graph, const Strategy& strategy, const Device& device) {
  const auto nodes = graph.nodes();
  const auto found = std::find_if(nodes.begin(), nodes.end(), [](const Graph::Node& node) {
    return graph::columns_of(node.op).family == graph::Family::CONV;
  });
  if (found == nodes.end()) return false;
  const DType dtype = graph.values()[found->inputs[0]].spec.dtype;
  const bool in_halves = strategy.amp || bits(dtype) < 32;
  const uint32_t wanted = in_halves ? TN_PREFERS_CHANNELS_LAST_HALF : TN_PREFERS_CHANNELS_LAST_F32;
  return (device.limits().preferences & wanted) != 0 && (in_halves || dtype == f32);
}

}  // namespace tenon::train
