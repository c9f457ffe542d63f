// SPDX-License-Identifier: Apache-2.0
// gradients.cpp: which nodes a gradient goes back through, and the sums where ways join.
//
// Invariant: whether there is a rule for every step is known before anything is built, and what is built is built in a
// copy, so a failure leaves the graph as it was. Equal graphs get equal nodes in an equal order. The gradient of 'fc1' is called
// 'fc1.grad', and what leads to it 'fc1.grad.1' and so on, where those names are free.
#include "base/text.hpp"
#include "graph/columns.hpp"
#include "graph/gradient_maker.hpp"
#include "graph/state.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tenon {
namespace {

using graph::Rule;

Status bad(const std::string& text) { return Status(TN_INVALID, "gradients: " + text); }

class Backward {
 public:
  Backward(const Graph& graph, uint32_t of, std::span<const GraphValue> wrt)
      : graph_(graph), of_(of), leads_(graph.values().size()), reached_(graph.values().size()) {
    for (const GraphValue value : wrt) leads_[value.index] = is_float(value.index);
    for (const Graph::Node& node : graph.nodes()) {
      const bool any =
          std::any_of(node.inputs.begin(), node.inputs.end(), [&](uint32_t i) { return leads(i); });
      for (const uint32_t index : node.outputs) {
        if (any && index != TN_ABSENT) leads_[index] = leads_[index] || is_float(index);
      }
    }
  }

  // The nodes on the way back, last first; or the first step without a rule.
  Result<std::vector<uint32_t>> plan() {
    std::vector<uint32_t> nodes;
    const uint32_t last = graph_.values()[of_].producer;
    reached_[of_] = leads_[of_];
    for (uint32_t i = last == TN_ABSENT ? 0 : last + 1; i-- > 0;) {
      const Graph::Node& node = graph_.nodes()[i];
      if (std::none_of(node.outputs.begin(), node.outputs.end(), [&](uint32_t v) { return reached(v); }))
        continue;
      nodes.push_back(i);
      for (uint32_t input = 0; input < node.inputs.size(); ++input) {
        if (leads(node.inputs[input]) && !TN_TRY(step(node, input))->is_zero())
          reached_[node.inputs[input]] = true;
      }
    }
    return nodes;
  }

  // Builds the nodes in `work`, a copy; gives the gradient of every value that has one.
  Result<std::vector<GraphValue>> build(Graph& work, const std::vector<uint32_t>& nodes, GraphValue seed) {
    std::vector<GraphValue> gradients(graph_.values().size());
    if (reached_[of_]) gradients[of_] = seed;
    for (const uint32_t i : nodes) {
      const Graph::Node& node = graph_.nodes()[i];
      std::vector<GraphValue> given;
      for (const uint32_t index : node.outputs)
        given.push_back(index == TN_ABSENT ? GraphValue{} : gradients[index]);
      graph::GradientMaker maker(work, node, std::move(given));
      for (uint32_t input = 0; input < node.inputs.size(); ++input) {
        const Rule* rule = leads(node.inputs[input]) ? graph::gradient_rule(node.op, input) : nullptr;
        if (rule == nullptr || rule->is_zero()) continue;
        const size_t first = work.values().size();
        const GraphValue made = maker.of_input(input, rule->expression);
        GraphValue& sum = gradients[node.inputs[input]];
        sum = sum.index == TN_ABSENT ? made : work.add(sum, made);
        for (size_t value = first; value < work.values().size(); ++value)
          ways_[node.inputs[input]].push_back(static_cast<uint32_t>(value));
      }
      TN_TRY(std::move(maker).status());
    }
    TN_TRY(work.check());
    return gradients;
  }

  // Calls what was built by what it is the gradient of.
  template <class F>
  void name_all(const std::vector<GraphValue>& gradients, F&& rename) const {
    for (const auto& [value, built] : ways_) {
      const std::string called = graph_.values()[value].name + ".grad";
      uint32_t number = 0;
      for (const uint32_t one : built)
        rename(one, one == gradients[value].index ? called : called + "." + std::to_string(++number));
    }
  }

  // Whether a gradient goes anywhere at all; known after plan().
  bool starts() const { return reached_[of_]; }

 private:
  bool is_float(uint32_t index) const { return graph::is_float(graph_.values()[index].spec.dtype); }
  bool leads(uint32_t index) const { return index != TN_ABSENT && leads_[index]; }
  bool reached(uint32_t index) const { return index != TN_ABSENT && reached_[index]; }

  Result<const Rule*> step(const Graph::Node& node, uint32_t input) const {
    const Rule* rule = graph::gradient_rule(node.op, input);
    const std::string called = "gradients: " + std::string(name(node.op)) + " " +
                               base::quoted(graph_.values()[node.outputs.front()].name, 64);
    const std::string way = " input " + std::to_string(input) + " (" +
                            base::quoted(graph_.values()[node.inputs[input]].name, 64) + ")";
    if (rule == nullptr)
      return Status(TN_UNSUPPORTED,
                    called + " has no gradient for" + way + ", which leads to what is asked for");
    for (uint32_t i = 0; i < node.outputs.size() && !rule->is_zero(); ++i) {
      if (reached(node.outputs[i]) && !rule->reads(i)) {
        return Status(TN_UNSUPPORTED, called + " has no gradient from output " + std::to_string(i) + " (" +
                                          base::quoted(graph_.values()[node.outputs[i]].name, 64) + ") to" +
                                          way);
      }
    }
    return rule;
  }

  const Graph& graph_;
  uint32_t of_;
  std::vector<bool> leads_;                           // per value: a float that depends on what is asked for
  std::vector<bool> reached_;                         // per value: a gradient arrives
  std::map<uint32_t, std::vector<uint32_t>> ways_{};  // values built on the way to the gradient of each
};

Status check_seed(const Graph& graph, GraphValue of, GraphValue seed) {
  const Graph::ValueInfo& info = graph.values()[of.index];
  const std::string called = base::quoted(info.name, 64);
  if (!graph::is_float(info.spec.dtype))
    return bad(called + " is " + std::string(name(info.spec.dtype)) + ": only floats have gradients");
  if (seed.index == TN_ABSENT && info.spec.elements() != 1) {
    return bad(called + " has " + base::counted(info.spec.elements(), "element") +
               ": reduce it to one, or give a seed");
  }
  const TensorSpec& given = graph.spec(seed);
  if (seed.index != TN_ABSENT && (given.dtype != info.spec.dtype || given.dims != info.spec.dims))
    return bad("the seed of " + called + " has another type or shape than " + called + " itself");
  return {};
}

}  // namespace

Result<std::vector<Graph::Value>> Graph::gradients(Value of, std::span<const Value> wrt, Value seed) {
  TN_TRY(check());
  TN_TRY(graph::rules_status());
  const bool known = state_->has(of) && (seed.index == TN_ABSENT || state_->has(seed)) &&
                     std::all_of(wrt.begin(), wrt.end(), [&](Value value) { return state_->has(value); });
  if (!known) return bad("a value is not of this graph: pass what this graph gave");
  TN_TRY(check_seed(*this, of, seed));
  Backward backward(*this, of.index, wrt);
  const std::vector<uint32_t> nodes = TN_TRY(backward.plan());
  Graph work(*this);
  const bool seeded = seed.index == TN_ABSENT && backward.starts();
  if (seeded) seed = work.constant(spec(of), 1);
  const std::vector<Value> made = TN_TRY(backward.build(work, nodes, seed));
  const auto rename = [&](uint32_t value, const std::string& called) { work.state_->rename(value, called); };
  if (seeded) rename(seed.index, values()[of.index].name + ".grad");
  backward.name_all(made, rename);
  std::vector<Value> out;
  for (const Value value : wrt) {
    const Value gradient = made[value.index];
    out.push_back(gradient.index != TN_ABSENT ? gradient : work.constant(spec(value), 0));
  }
  TN_TRY(work.check());
  *this = std::move(work);
  return out;
}

Result<std::vector<Graph::Value>> Graph::gradients(Value of, std::initializer_list<Value> wrt, Value seed) {
  return gradients(of, std::span(wrt.begin(), wrt.size()), seed);
}

}  // namespace tenon
