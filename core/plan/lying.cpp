// SPDX-License-Identifier: Apache-2.0
// lying.cpp: from the lists of the passes to fragments.
#include "plan/lying.hpp"

#include "base/text.hpp"

#include <algorithm>

namespace tenon::plan_room {
namespace {

using Value = FragmentBuilder::Value;

Status bad(std::string text) { return Status(TN_INVALID, "plan: " + std::move(text)); }

bool has(const std::vector<uint32_t>& list, uint32_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

Result<Lying> Lying::of(const passes::Rewritten& work) {
  const auto values = work.graph.values();
  const auto nodes = work.graph.nodes();
  Lying out;
  for (const passes::Placement& placement : work.placements) {
    if (placement.value >= values.size())
      return bad("a placement names value " + std::to_string(placement.value) + ", and the graph has " +
                 base::counted(values.size(), "value"));
    const std::string& name = values[placement.value].name;
    if (placement.strides.empty()) {
      return Status(TN_UNSUPPORTED, "plan: '" + name + "' is to lie in the private layout '" +
                                        placement.layout + "', and plans know strides only: prefer nhwc");
    }
    if (placement.strides.size() != values[placement.value].spec.dims.size())
      return bad("'" + name + "' is placed with " + base::counted(placement.strides.size(), "stride"));
    out.strides_.emplace(placement.value, placement.strides);
  }
  for (const passes::Alias& alias : work.aliases) {
    const bool there = alias.node < nodes.size() && alias.output < nodes[alias.node].outputs.size() &&
                       alias.input < nodes[alias.node].inputs.size();
    const uint32_t made = there ? nodes[alias.node].outputs[alias.output] : TN_ABSENT,
                   read = there ? nodes[alias.node].inputs[alias.input] : TN_ABSENT;
    if (made == TN_ABSENT || read == TN_ABSENT)
      return bad("an alias names output " + std::to_string(alias.output) + " and input " +
                 std::to_string(alias.input) + " of node " + std::to_string(alias.node) + ", which has none");
    out.over_.emplace(made, read);
  }
  return out;
}

const std::vector<int64_t>& Lying::strides(uint32_t value) const {
  static const std::vector<int64_t> dense;
  const auto found = strides_.find(value);
  return found == strides_.end() ? dense : found->second;
}

uint32_t Lying::over(const Graph& graph, const Graph::Piece& piece, uint32_t output) const {
  uint32_t value = output;
  for (auto found = over_.find(value); found != over_.end(); found = over_.find(value)) {
    value = found->second;
    if (has(piece.inputs, value)) return value;
    // A value that others read too has a place of its own; one made elsewhere, or a constant, is no binding.
    if (has(piece.outputs, value) || graph.values()[value].producer == TN_ABSENT) break;
  }
  return TN_ABSENT;
}

Result<Fragment> Lying::fragment(const Graph& graph, std::span<const uint32_t> nodes,
                                 const Graph::Piece& piece, std::span<const tn_alias> aliases) const {
  FragmentBuilder builder(graph.name());
  std::unordered_map<uint32_t, Value> made;
  const auto bound = [&](uint32_t value) {
    TensorSpec spec = graph.values()[value].spec;
    if (!strides(value).empty()) spec.strides = strides(value);
    return spec;
  };
  const auto operand = [&](uint32_t value) {
    if (value == TN_ABSENT) return Value{};
    const auto found = made.find(value);
    if (found != made.end()) return found->second;
    const Graph::ValueInfo& info = graph.values()[value];
    return made.emplace(value, builder.constant(info.spec, info.constant)).first->second;
  };
  for (const uint32_t value : piece.inputs) made.emplace(value, builder.input(bound(value)));
  for (const uint32_t index : nodes) {
    const Graph::Node& node = graph.nodes()[index];
    std::vector<Value> inputs;
    std::vector<TensorSpec> outputs;
    for (const uint32_t value : node.inputs) inputs.push_back(operand(value));
    for (const uint32_t value : node.outputs) {
      if (value == TN_ABSENT)
        outputs.push_back({.dtype = DType{}});
      else
        outputs.push_back(has(piece.outputs, value) ? bound(value) : graph.values()[value].spec);
    }
    const auto results = builder.node(node.op, inputs, std::move(outputs), node.attributes);
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i] != TN_ABSENT) made.emplace(node.outputs[i], results[i]);
    }
  }
  for (const uint32_t value : piece.outputs) builder.output(made.at(value));
  for (const tn_alias& alias : aliases) builder.alias(alias.output, alias.input);
  return builder.build();
}

}  // namespace tenon::plan_room
