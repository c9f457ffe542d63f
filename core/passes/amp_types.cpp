// SPDX-License-Identifier: Apache-2.0
// amp_types.cpp: see amp_types.hpp.
#include "passes/amp_types.hpp"

#include "base/text.hpp"
#include "graph/columns.hpp"
#include "passes/rewriter.hpp"

#include <cmath>
#include <cstring>

namespace tenon::passes {

using graph::Family;

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
    conclude(node, nodes_.back());
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
  AmpList list = amp_list(node.op, options_.level);
  bool any = false;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    any = any || (is_f32(node.inputs[i]) && is_subject(node.op, i));
  if (!any || list == AmpList::OWN) return {};
  if (Entry* entry = entry_for(node)) {
    ++entry->nodes;
    const bool white = entry->list == AmpList::WHITE;
    return {white ? options_.half : f32,
            base::quoted(entry->name, 64) + (white ? " is on your white list" : " is on your black list")};
  }
  if (list == AmpList::WHITE) return {options_.half, std::string(name(node.op)) + " is on the white list"};
  if (list == AmpList::BLACK) return {f32, std::string(name(node.op)) + " is on the black list"};
  return follow(node);
}

Judgement AmpTypes::follow(const Graph::Node& node) const {
  uint32_t half = TN_ABSENT;
  bool scalars = true;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const uint32_t index = node.inputs[i];
    if (!is_f32(index) || !is_subject(node.op, i)) continue;
    scalars = scalars && graph_.values()[index].spec.dims.empty();
    if (values_[index] == Precision::full)
      return {f32, "it follows " + base::quoted(graph_.values()[index].name, 64) + ", which is f32"};
    if (values_[index] == Precision::half) half = index;
  }
  if (half != TN_ABSENT) {
    return {options_.half, "it follows " + base::quoted(graph_.values()[half].name, 64) + ", which is " +
                               std::string(name(options_.half))};
  }
  if (options_.level == AmpLevel::O1) return {f32, "no input is a half"};
  if (scalars) return {f32, "single numbers among themselves stay f32: rates and counters are such"};
  return {options_.half, "activations are halves from the start"};
}

// What the outputs are, once the node computes in the type it was given.
void AmpTypes::conclude(const Graph::Node& node, const Judgement& judgement) {
  bool light = judgement.dtype != options_.half, floats = false;  // light: of leaves and constants alone
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const uint32_t index = node.inputs[i];
    if (index == TN_ABSENT) continue;
    const bool is_float = graph::is_float(graph_.values()[index].spec.dtype);
    floats = floats || is_float;
    if (is_float && is_subject(node.op, i)) light = light && values_[index] == Precision::either;
  }
  if (node.op == Op::cast) light = !floats;  // a cast of a float is meant
  if (node.op == Op::constant) light = fits(std::get<double>(attribute(node, "value")), options_.half);
  const Family family = graph::columns_of(node.op).family;
  if (family == Family::OPTIMIZER || family == Family::SCALING) light = false;
  if (judgement.dtype == f32 && judgement.reason != "no input is a half" && node.op != Op::constant)
    light = false;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const uint32_t index = node.outputs[i];
    if (!is_f32(index)) continue;
    const bool subject = i == 0 || graph::columns_of(node.op).dtypes != graph::DtypeRule::NORM;
    const bool halves = judgement.dtype == options_.half && subject &&
                        !(i == 1 && (node.op == Op::attention || node.op == Op::cross_entropy));
    values_[index] = halves ? Precision::half : light ? Precision::either : Precision::full;
  }
}

}  // namespace tenon::passes
