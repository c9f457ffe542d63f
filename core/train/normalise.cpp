// SPDX-License-Identifier: Apache-2.0
// normalise.cpp: see normalise.hpp.
#include "train/normalise.hpp"

#include "graph/columns.hpp"
#include "passes/sync_batch_norm.hpp"
#include "train/pieces.hpp"

#include <unordered_set>

namespace tenon::train {
namespace {

// Who reads a running statistic will not tell any more that it is one.
void start_statistics(TrainingGraph& step) {
  const auto start = [&](uint32_t value, double number) {
    const Graph::ValueInfo& info = step.graph.values()[value];
    if (info.role == Graph::Role::param) step.starts.push_back({info.name, number});
  };
  for (const Graph::Node& node : step.graph.nodes()) {
    if (node.op != Op::batch_norm_train) continue;
    start(node.inputs[3], 0);
    start(node.inputs[4], 1);
  }
}

}  // namespace

Status normalise_over_ranks(TrainingGraph& step, uint32_t ranks) {
  std::unordered_set<std::string> known;
  for (const Graph::ValueInfo& value : step.graph.values()) known.insert(value.name);
  start_statistics(step);
  auto work = TN_TRY(passes::sync_batch_norm(passes::Rewritten(std::move(step.graph)), sums_inside, ranks));
  step.graph = std::move(work.graph);
  step.notes = std::move(work.notes);
  for (const Graph::Node& node : step.graph.nodes()) {
    const graph::Family family = graph::columns_of(node.op).family;
    if (family == graph::Family::NORM || node.op == Op::cast || node.outputs.empty()) continue;
    const uint32_t made = node.outputs[0];
    if (made != TN_ABSENT && !known.contains(step.graph.values()[made].name))
      step.in_f32.push_back(step.graph.values()[made].name);
  }
  return {};
}

}  // namespace tenon::train
