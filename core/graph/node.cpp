// SPDX-License-Identifier: Apache-2.0
// node.cpp: how a node comes about: inputs taken, attributes completed, outputs inferred, and only then appended.
//
// Invariant: a node that breaks any rule leaves nothing behind but the mistake.
#include "base/fragment_parts.hpp"
#include "base/text.hpp"
#include "graph/infer.hpp"
#include "graph/state.hpp"

#include <algorithm>
#include <utility>

namespace tenon {

// A node before it is known to be good.
struct NodeDraft {
  Graph::State& state;
  Op op;
  std::vector<std::string> names;
  const base::OpSchema* schema = nullptr;
  std::vector<uint32_t> inputs{};
  Graph::Attributes attributes{};
  std::vector<TensorSpec> specs{};

  // "matmul 'fc1' (bf16[64,1024], bf16[512,4096])"
  std::string where() const;
  void note(const std::string& text) const { state.note(where(), text); }
  void take_inputs(std::span<const GraphValue> values);
  void complete(Graph::Attributes given);
  void infer();
  void take_names();
  std::vector<GraphValue> append();
};

std::string NodeDraft::where() const {
  std::string shapes;
  for (const uint32_t index : inputs) {
    shapes += shapes.empty() ? "" : ", ";
    shapes += index < state.values.size() ? graph::words(state.values[index].spec) : "_";
  }
  const std::string called =
      names.empty() || names.front().empty() ? std::to_string(state.values.size()) : names.front();
  return std::string(name(op)) + " " + base::quoted(called, 64) + " (" + shapes + ")";
}

// Optional inputs at the end that are absent are dropped, so that one meaning has one form.
void NodeDraft::take_inputs(std::span<const GraphValue> values) {
  while (values.size() > schema->inputs_min && values.back().index == TN_ABSENT)
    values = values.first(values.size() - 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const bool absent = values[i].index == TN_ABSENT;
    inputs.push_back(absent || !state.has(values[i]) ? TN_ABSENT : values[i].index);
    const std::string which = "input " + std::to_string(i);
    if (!absent && !state.has(values[i]))
      return note(which + " is a value of another graph: pass what this graph gave");
    if (absent && (i < schema->inputs_min || schema->many_inputs))
      return note(which + " is no value: pass what input, param, constant or a node gave");
  }
  if (values.size() >= schema->inputs_min && (schema->many_inputs || values.size() <= schema->inputs_max))
    return;
  std::string takes = schema->many_inputs ? "at least " : "";
  takes += std::to_string(schema->inputs_min);
  if (!schema->many_inputs && schema->inputs_max != schema->inputs_min)
    takes += " to " + std::to_string(schema->inputs_max);
  note("it is given " + base::counted(values.size(), "input") + ", it takes " + takes);
}

void NodeDraft::complete(Graph::Attributes given) {
  auto complete = base::complete_attributes(*schema, std::move(given));
  if (!complete.ok()) return note(std::string(complete.message()));
  attributes = std::move(complete).take();
}

void NodeDraft::infer() {
  std::vector<const TensorSpec*> specs_in;
  for (const uint32_t index : inputs)
    specs_in.push_back(index == TN_ABSENT ? nullptr : &state.values[index].spec);
  auto inferred = graph::infer({*schema, specs_in, attributes, state.ranks});
  if (!inferred.ok()) return note(std::string(inferred.message()));
  specs = std::move(inferred).take();
  for (const TensorSpec& spec : specs) {
    if (spec.dtype == DType{}) continue;
    const Status fits = base::check_spec(spec);
    if (!fits.ok()) return note("its result " + graph::words(spec) + ": " + std::string(fits.message()));
    if (spec.elements() >= Graph::element_limit) {
      return note("its result " + graph::words(spec) + " has " + std::to_string(spec.elements()) +
                  " elements, a tensor has fewer than 2^40");
    }
  }
}

// A free number for each output without a name.
void NodeDraft::take_names() {
  if (names.size() > specs.size())
    note("it is given " + base::counted(names.size(), "name") + ", it has " +
         base::counted(specs.size(), "output"));
  names.resize(specs.size());
  for (const std::string& given : names) {
    if (given.empty()) continue;
    if (std::count(names.begin(), names.end(), given) > 1)
      note("two of its outputs are called " + base::quoted(given, 64));
    state.check_name(given, where());
  }
  for (size_t i = 0, number = state.values.size(); i < names.size() && !state.broken(); ++i) {
    if (!names[i].empty() || specs[i].dtype == DType{}) continue;
    std::string free = std::to_string(number);
    while (state.names.contains(free) || std::find(names.begin(), names.end(), free) != names.end())
      free = std::to_string(++number);
    names[i] = std::move(free);
  }
}

std::vector<GraphValue> NodeDraft::append() {
  const auto node = static_cast<uint32_t>(state.nodes.size());
  Graph::Node made{.op = op, .inputs = std::move(inputs), .outputs = {}, .attributes = std::move(attributes)};
  for (const uint32_t index : made.inputs) {
    if (index == TN_ABSENT) continue;
    std::vector<uint32_t>& users = state.values[index].users;
    if (users.empty() || users.back() != node) users.push_back(node);
  }
  std::vector<GraphValue> values;
  for (size_t i = 0; i < specs.size(); ++i) {
    uint32_t index = TN_ABSENT;
    if (specs[i].dtype != DType{})
      index = state.append({.name = std::move(names[i]), .spec = std::move(specs[i]), .producer = node});
    made.outputs.push_back(index);
    values.push_back(state.handle(index));
  }
  state.nodes.push_back(std::move(made));
  return values;
}

std::vector<GraphValue> Graph::State::node(Op op, std::vector<std::string> called,
                                           std::span<const Value> inputs, Attributes given) {
  NodeDraft draft{.state = *this, .op = op, .names = std::move(called), .schema = base::schema_of(op)};
  if (draft.schema == nullptr && !broken())
    note("a node", "op " + std::to_string(static_cast<uint32_t>(op)) + " is not in ops.def");
  if (!broken()) draft.take_inputs(inputs);
  if (!broken()) draft.complete(std::move(given));
  if (!broken()) draft.infer();
  if (!broken()) draft.take_names();
  if (!broken()) return draft.append();
  // The caller's chain goes on with values that are none.
  if (draft.schema == nullptr) return std::vector<Value>(1);
  return std::vector<Value>(draft.schema->many_outputs ? std::max<size_t>(inputs.size(), 1)
                                                       : draft.schema->outputs);
}

std::vector<GraphValue> Graph::node(Op op, std::span<const Value> inputs, Attributes attributes) {
  return state_->node(op, {}, inputs, std::move(attributes));
}
std::vector<GraphValue> Graph::node(Op op, std::initializer_list<Value> inputs, Attributes attributes) {
  return node(op, std::span(inputs.begin(), inputs.size()), std::move(attributes));
}
std::vector<GraphValue> Graph::Named::node(Op op, std::span<const Value> inputs, Attributes attributes) {
  return state_.node(op, names_, inputs, std::move(attributes));
}
std::vector<GraphValue> Graph::Named::node(Op op, std::initializer_list<Value> inputs,
                                           Attributes attributes) {
  return node(op, std::span(inputs.begin(), inputs.size()), std::move(attributes));
}

}  // namespace tenon
