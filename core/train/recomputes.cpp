// SPDX-License-Identifier: Apache-2.0
// recomputes.cpp: see recomputes.hpp.
#include "train/recomputes.hpp"

#include "fusion/names.hpp"

#include <algorithm>

namespace tenon::train {

bool recomputes(const Graph& graph, const Strategy& strategy, const FusionTarget& target) {
  const bool is_way_back =
      std::any_of(graph.nodes().begin(), graph.nodes().end(),
                  [](const Graph::Node& node) { return node.op == Op::batch_norm_grad; });
  if (!is_way_back) return false;
  const FusionOptions fusion = strategy.fusion(target);
  if (!fusion.must_fuse.empty() || !fusion.never_fuse.empty()) return false;
  const auto is_served = [&](const FusionPattern& pattern) {
    return pattern.name == "bn_act_backward" &&
           std::none_of(fusion.off.begin(), fusion.off.end(),
                        [&](const std::string& word) { return fusion::matches(word, pattern.name); });
  };
  return fusion.patterns && !target.whole_graph &&
         std::any_of(target.patterns.begin(), target.patterns.end(), is_served);
}

}  // namespace tenon::train
