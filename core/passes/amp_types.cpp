// SPDX-License-Identifier: Apache-2.0
// amp_types.cpp: see amp_types.hpp.
#include "passes/amp_types.hpp"

#include "base/text.hpp"
#include "graph/columns.hpp"
#include "passes/rewriter.hpp"

#include <cmath>
#include <cstring>

namespace tenon::passes {

bool fits(double number, DType half) noexcept {
  if (!std::isfinite(number) || number == 0) return true;
  const double size = std::fabs(number);
  return half == bf16 ? size <= 0x1.FEp127 && size >= 0x1p-133 : size <= 65504 && size >= 0x1p-24;
}

AmpTypes::AmpTypes(const Graph& graph, const AmpOptions& options)
    : graph_(graph), options_(options), values_(graph.values().size(), Precision::other) {
  for (const std::string& name : options.white) entries_.push_back({name, AmpList::WHITE});
  for (const std::string& name : options.black) entries_.push_back({name, AmpList::BLACK});
  for (size_t i = 0; i < entries_.size(); ++i) by_name_.emplace(entries_[i].name, i);
  for (uint32_t i = 0; i < values_.size(); ++i) {
    if (graph.values()[i].role != Graph::Role::computed) values_[i] = of_leaf(graph.values()[i]);
  }
  for (const Graph::Node& node : graph.nodes()) {
    nodes_.push_back(judge(node));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (is_f32(node.outputs[i]))
        values_[node.outputs[i]] = gives_subject(node.op, i) ? nodes_.back().result : Precision::full;
    }
  }
}

bool AmpTypes::is_f32(uint32_t value) const {
  return value != TN_ABSENT && graph_.values()[value].spec.dtype == f32;
}

Precision AmpTypes::of_leaf(const Graph::ValueInfo& info) const {
  if (info.spec.dtype != f32) return Precision::other;
  for (size_t i = 0; i + sizeof(float) <= info.constant.size(); i += sizeof(float)) {
    float number = 0;
    std::memcpy(&number, info.constant.data() + i, sizeof number);
    if (!fits(number, options_.half)) return Precision::full;
  }
  return Precision::either;
}

// A node's own name counts more than its op's.
AmpTypes::Entry* AmpTypes::entry_for(const Graph::Node& node) {
  for (const uint32_t index : node.outputs) {
    const auto found = index == TN_ABSENT ? by_name_.end() : by_name_.find(graph_.values()[index].name);
    if (found != by_name_.end()) return &entries_[found->second];
  }
  const auto found = by_name_.find(std::string(name(node.op)));
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

Judgement AmpTypes::judge(const Graph::Node& node) {
  const AmpList list = amp_list(node.op, options_.level);
  bool any = false;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    any = any || (is_f32(node.inputs[i]) && is_subject(node.op, i));
  if (!any || list == AmpList::OWN) return {.result = of_own(node)};
  const auto fixed = [&](bool white, const std::string& reason) {
    return white ? Judgement{options_.half, reason, Precision::half}
                 : Judgement{f32, reason, Precision::full};
  };
  if (Entry* entry = entry_for(node)) {
    ++entry->nodes;
    const bool white = entry->list == AmpList::WHITE;
    return fixed(white,
                 base::quoted(entry->name, 64) + " is on your " + (white ? "white" : "black") + " list");
  }
  if (list == AmpList::GREY) return follow(node);
  const bool white = list == AmpList::WHITE;
  return fixed(white, std::string(name(node.op)) + " is on the " + (white ? "white" : "black") + " list");
}

Judgement AmpTypes::follow(const Graph::Node& node) const {
  const std::string half = std::string(name(options_.half));
  uint32_t first_half = TN_ABSENT;
  bool scalars = true;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const uint32_t index = node.inputs[i];
    if (!is_f32(index) || !is_subject(node.op, i)) continue;
    const std::string called = base::quoted(graph_.values()[index].name, 64);
    if (values_[index] == Precision::full)
      return {f32, "it follows " + called + ", which is f32", Precision::full};
    if (values_[index] == Precision::half && first_half == TN_ABSENT) first_half = index;
    scalars = scalars && graph_.values()[index].spec.dims.empty();
  }
  if (first_half != TN_ABSENT) {
    return {options_.half,
            "it follows " + base::quoted(graph_.values()[first_half].name, 64) + ", which is " + half,
            Precision::half};
  }
  if (options_.level == AmpLevel::O1) return {f32, "none of its inputs is " + half, Precision::either};
  if (scalars)
    return {f32, "single numbers stay f32 among themselves: rates and counters", Precision::either};
  return {options_.half, "activations are " + half + " from the start", Precision::half};
}

// Of a node that says itself what it makes: what is cast to f32 is meant to be f32, what is no float's result goes along.
Precision AmpTypes::of_own(const Graph::Node& node) const {
  if (node.op == Op::constant && !fits(std::get<double>(attribute(node, "value")), options_.half))
    return Precision::full;
  for (const uint32_t index : node.inputs) {
    if (index != TN_ABSENT && graph::is_float(graph_.values()[index].spec.dtype)) return Precision::full;
  }
  return Precision::either;
}

}  // namespace tenon::passes
