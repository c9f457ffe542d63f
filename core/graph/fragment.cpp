// SPDX-License-Identifier: Apache-2.0
// fragment.cpp: nodes of a graph as a fragment: what comes in, what goes out, and whether it can be one at all.
#include "base/text.hpp"
#include "graph/columns.hpp"
#include "graph/state.hpp"

#include <algorithm>
#include <unordered_map>

namespace tenon {
namespace {

Status no_piece(std::string text) { return Status(TN_INVALID, std::move(text)); }

class Cutter {
 public:
  Cutter(const Graph::State& state, std::vector<uint32_t> nodes)
      : state_(state), nodes_(std::move(nodes)), builder_(state.name) {}

  // Inputs in the order given, the others in the order of first use.
  Result<Graph::Piece> run(const std::vector<uint32_t>& inputs, const std::vector<uint32_t>& outputs) && {
    for (const uint32_t index : inputs) static_cast<void>(bound(index));
    for (const uint32_t node : nodes_) add(state_.nodes[node]);
    for (const uint32_t index : outputs) builder_.output(made_[index]);
    Fragment fragment = TN_TRY(builder_.build());
    return Graph::Piece{.fragment = std::move(fragment), .inputs = std::move(inputs_), .outputs = outputs};
  }

  // What others need of these nodes, in the order it is made.
  // What a collective gives is wanted by other ranks, if by nobody here.
  std::vector<uint32_t> needed() const {
    std::vector<uint32_t> out;
    for (const uint32_t node : nodes_) {
      const bool is_wanted = graph::columns_of(state_.nodes[node].op).family == graph::Family::COLLECTIVE;
      for (const uint32_t index : state_.nodes[node].outputs) {
        if (index == TN_ABSENT) continue;
        const std::vector<uint32_t>& users = state_.values[index].users;
        const bool leaves = is_wanted || std::any_of(users.begin(), users.end(),
                                                     [&](uint32_t user) { return !inside(user); });
        if (leaves || state_.is_output[index]) out.push_back(index);
      }
    }
    return out;
  }

  // A path that leaves the nodes and enters them again would make the fragment wait for itself.
  Status check_convex() const {
    if (nodes_.empty()) return no_piece("a piece has at least one node");
    const uint32_t first = nodes_.front();
    std::vector<bool> after(nodes_.back() - first + 1);  // outside, and needs something of the inside
    for (uint32_t node = first; node <= nodes_.back(); ++node) {
      const bool is_inside = inside(node);
      for (const uint32_t index : state_.nodes[node].inputs) {
        const uint32_t producer = index == TN_ABSENT ? TN_ABSENT : state_.values[index].producer;
        if (producer == TN_ABSENT || producer < first) continue;
        if (is_inside && after[producer - first]) {
          return no_piece(called(producer) + " stands between these nodes: it needs one of them, and " +
                          called(node) + " needs it");
        }
        if (!is_inside && (inside(producer) || after[producer - first])) after[node - first] = true;
      }
    }
    return {};
  }

 private:
  bool inside(uint32_t node) const { return std::binary_search(nodes_.begin(), nodes_.end(), node); }

  std::string called(uint32_t node) const {
    const Graph::Node& told = state_.nodes[node];
    const uint32_t first = told.outputs.empty() ? TN_ABSENT : told.outputs.front();
    return std::string(name(told.op)) + (first == TN_ABSENT ? " (node " + std::to_string(node) + ")"
                                                            : " '" + state_.values[first].name + "'");
  }

  FragmentBuilder::Value bound(uint32_t index) {
    if (index == TN_ABSENT) return {};
    FragmentBuilder::Value& value = made_[index];
    if (value.index != TN_ABSENT) return value;
    const Graph::ValueInfo& info = state_.values[index];
    if (info.role == Graph::Role::constant) return value = builder_.constant(info.spec, info.constant);
    inputs_.push_back(index);
    return value = builder_.input(info.spec);
  }

  void add(const Graph::Node& node) {
    std::vector<FragmentBuilder::Value> inputs;
    std::vector<TensorSpec> outputs;
    for (const uint32_t index : node.inputs) inputs.push_back(bound(index));
    for (const uint32_t index : node.outputs)
      outputs.push_back(index == TN_ABSENT ? TensorSpec{.dtype = DType{}} : state_.values[index].spec);
    const auto values = builder_.node(node.op, inputs, std::move(outputs), node.attributes);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != TN_ABSENT) made_[node.outputs[i]] = values[i];
    }
  }

  const Graph::State& state_;
  std::vector<uint32_t> nodes_;                                  // ascending
  std::unordered_map<uint32_t, FragmentBuilder::Value> made_{};  // by value
  std::vector<uint32_t> inputs_{};
  FragmentBuilder builder_;
};

}  // namespace

Result<Graph::Piece> Graph::fragment() const {
  TN_TRY(check());
  std::vector<uint32_t> nodes(state_->nodes.size()), inputs, outputs;
  for (uint32_t i = 0; i < nodes.size(); ++i) nodes[i] = i;
  for (uint32_t i = 0; i < state_->values.size(); ++i) {
    const Role role = state_->values[i].role;
    if (role == Role::input || role == Role::param) inputs.push_back(i);
  }
  for (const Output& output : state_->outputs) outputs.push_back(output.value);
  return Cutter(*state_, std::move(nodes)).run(inputs, outputs);
}

Result<Graph::Piece> Graph::fragment(std::span<const uint32_t> nodes) const {
  TN_TRY(check());
  std::vector<uint32_t> sorted(nodes.begin(), nodes.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  if (!sorted.empty() && sorted.back() >= state_->nodes.size()) {
    return no_piece("node " + std::to_string(sorted.back()) + " is not there: the graph has " +
                    base::counted(state_->nodes.size(), "node"));
  }
  Cutter cutter(*state_, std::move(sorted));
  TN_TRY(cutter.check_convex());
  const std::vector<uint32_t> outputs = cutter.needed();
  return std::move(cutter).run({}, outputs);
}

}  // namespace tenon
