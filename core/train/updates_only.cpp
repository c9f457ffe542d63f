// SPDX-License-Identifier: Apache-2.0
// updates_only.cpp: see updates_only.hpp.
#include "train/updates_only.hpp"

#include "passes/rewriter.hpp"

#include <algorithm>

namespace tenon::train {
namespace {

bool is_sum(const Graph::Node& node) { return node.op == Op::all_reduce; }

class Cutter {
 public:
  Cutter(const Graph& graph, std::string_view divisor)
      : graph_(graph),
        own_(graph.values().size()),
        read_(graph.values().size()),
        kept_(graph.nodes().size()) {
    find_own(divisor);
    find_kept();
  }

  bool keeps_node(uint32_t node) const { return kept_[node]; }
  bool keeps_leaf(uint32_t value) const { return read_[value]; }
  // What a step without samples has of the outputs. A sum itself is an input there, and no output.
  bool keeps(const Graph::Output& output) const {
    const uint32_t producer = graph_.values()[output.value].producer;
    return !own_[output.value] && (producer == TN_ABSENT || !is_sum(graph_.nodes()[producer]));
  }

 private:
  // What follows from this rank's samples, up to sums over ranks.
  void find_own(std::string_view divisor) {
    const auto values = graph_.values();
    for (uint32_t i = 0; i < values.size(); ++i)
      own_[i] = values[i].role == Graph::Role::input && values[i].name != divisor;
    for (const Graph::Node& node : graph_.nodes()) {
      const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                   [&](uint32_t value) { return value != TN_ABSENT && own_[value]; });
      for (const uint32_t value : node.outputs)
        if (value != TN_ABSENT) own_[value] = any && !is_sum(node);
    }
  }

  // What the outputs that stay need; a sum needs nothing.
  void find_kept() {
    for (const Graph::Output& output : graph_.outputs())
      if (keeps(output)) read_[output.value] = true;
    for (uint32_t i = static_cast<uint32_t>(kept_.size()); i-- > 0;) {
      const Graph::Node& node = graph_.nodes()[i];
      kept_[i] = std::any_of(node.outputs.begin(), node.outputs.end(),
                             [&](uint32_t value) { return value != TN_ABSENT && read_[value]; });
      for (const uint32_t value : node.inputs)
        if (kept_[i] && value != TN_ABSENT && !is_sum(node)) read_[value] = true;
    }
  }

  const Graph& graph_;
  std::vector<bool> own_, read_;  // per value
  std::vector<bool> kept_;        // per node
};

}  // namespace

Result<passes::Rewritten> updates_only(const Graph& graph, std::string_view divisor) {
  const Cutter cut(graph, divisor);
  auto writer = TN_TRY(passes::Rewriter::begin(graph, "no samples"));
  writer.walk(
      [&](uint32_t leaf) {
        if (cut.keeps_leaf(leaf)) writer.leaf(leaf);
      },
      [&](uint32_t i) {
        const Graph::Node& node = graph.nodes()[i];
        if (!cut.keeps_node(i)) return;
        if (!is_sum(node)) return writer.copy(node);
        const Graph::ValueInfo& sum = graph.values()[node.outputs[0]];
        writer.set(node.outputs[0], writer.to().input(sum.name, sum.spec));
      });
  const passes::Rewriter& written = writer;
  return std::move(writer).finish([&](const Graph::Output& output) {
    return cut.keeps(output) ? written.at(output.value) : GraphValue{};
  });
}

}  // namespace tenon::train
