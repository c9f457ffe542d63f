// SPDX-License-Identifier: Apache-2.0
// layout.cpp: see layout.hpp.
#include "train/layout.hpp"

#include "base/text.hpp"
#include "graph/columns.hpp"

#include <algorithm>
#include <vector>

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

Status check_layout(const std::string& layout, const Device& device) {
  if (layout == "NHWC" || layout == "NCHW") return {};
  std::vector<std::string> known{"auto", "nhwc", "nchw"};
  tn_string_list own{};
  tn_error error = no_error();
  TN_TRY(status_of(device.plugin().kernel->layouts(device.handle(), &own, &error), error));
  for (uint64_t i = 0; own.items != nullptr && i < own.count; ++i)
    if (own.items[i] != nullptr) known.emplace_back(own.items[i]);
  if (std::find(known.begin(), known.end(), layout) != known.end()) return {};
  const std::vector<std::string_view> names(known.begin(), known.end());
  return Status(TN_INVALID, "layout: " + device.name() + " has no order called " + base::quoted(layout) +
                                base::did_you_mean(layout, names) + ": it has " + base::join(known, ", "));
}

}  // namespace tenon::train
