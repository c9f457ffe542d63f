// SPDX-License-Identifier: Apache-2.0
// updates_only.cpp: see updates_only.hpp.
#include "train/updates_only.hpp"

#include "passes/rewriter.hpp"

#include <algorithm>

namespace tenon::train {
namespace {

bool is_sum(const Graph::Node& node) { return node.op == Op::all_reduce; }

// Per value: whether it follows from this rank's samples, up to sums over ranks.
std::vector<bool> own_values(const Graph& graph, std::string_view divisor) {
  const auto values = graph.values();
  std::vector<bool> out(values.size());
  for (uint32_t i = 0; i < values.size(); ++i)
    out[i] = values[i].role == Graph::Role::input && values[i].name != divisor;
  for (const Graph::Node& node : graph.nodes()) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](uint32_t value) { return value != TN_ABSENT && out[value]; });
    for (const uint32_t value : node.outputs)
      if (value != TN_ABSENT) out[value] = any && !is_sum(node);
  }
  return out;
}

}  // namespace

Result<passes::Rewritten> updates_only(const Graph& graph, std::string_view divisor) {
  const std::vector<bool> own = own_values(graph, divisor);
  auto writer = TN_TRY(passes::Rewriter::begin(graph, "no samples"));
  writer.walk(
      [&](uint32_t leaf) {
        if (!own[leaf]) writer.leaf(leaf);
      },
      [&](uint32_t i) {
        const Graph::Node& node = graph.nodes()[i];
        const auto is_own = [&](uint32_t value) { return value != TN_ABSENT && own[value]; };
        if (std::any_of(node.outputs.begin(), node.outputs.end(), is_own)) return;
        if (!is_sum(node)) return writer.copy(node);
        const Graph::ValueInfo& sum = graph.values()[node.outputs[0]];
        writer.set(node.outputs[0], writer.to().input(sum.name, sum.spec));
      });
  const passes::Rewriter& written = writer;
  return std::move(writer).finish([&](const Graph::Output& output) {
    const uint32_t producer = graph.values()[output.value].producer;
    const bool is_input = producer != TN_ABSENT && is_sum(graph.nodes()[producer]);
    return is_input ? GraphValue{} : written.at(output.value);
  });
}

}  // namespace tenon::train
