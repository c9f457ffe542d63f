// SPDX-License-Identifier: Apache-2.0
// rewriter.cpp: see rewriter.hpp.
#include "passes/rewriter.hpp"

#include <algorithm>
#include <utility>

namespace tenon::passes {
namespace {

// `name`, then name.2, name.3 …; the one that was free is taken.
std::string take(const std::string& name, std::unordered_set<std::string>& taken) {
  std::string free = name;
  for (int i = 2; !taken.insert(free).second; ++i) free = name + "." + std::to_string(i);
  return free;
}

// The leaves before this value were there when the node came.
uint32_t first_needed(const Graph::Node& node) {
  uint32_t after_inputs = 0;
  for (const uint32_t index : node.outputs) {
    if (index != TN_ABSENT) return index;
  }
  for (const uint32_t index : node.inputs)
    after_inputs = index == TN_ABSENT ? after_inputs : std::max(after_inputs, index + 1);
  return after_inputs;
}

}  // namespace

Result<Rewriter> Rewriter::begin(Rewritten work, std::string pass) {
  TN_TRY(work.graph.check());
  if (!work.aliases.empty() || !work.placements.empty()) {
    return Status(TN_INVALID, pass + " changes nodes, and " + (work.aliases.empty() ? "layouts" : "aliases") +
                                  " of the nodes there are were given already: run it before layout, addto "
                                  "and in_place");
  }
  return Rewriter(std::move(work), std::move(pass));
}

Rewriter::Rewriter(Rewritten work, std::string pass)
    : work_(std::move(work)),
      pass_(std::move(pass)),
      notes_before_(work_.notes.size()),
      to_(work_.graph.name()),
      made_(work_.graph.values().size()) {
  for (const Graph::ValueInfo& info : from().values()) names_.insert(info.name);
  for (const Graph::Output& output : from().outputs()) outputs_.insert(output.name);
  for (const auto& [comm, ranks] : from().communicators()) to_.communicator(comm, ranks);
}

Rewriter::Value Rewriter::leaf(uint32_t old, DType dtype) {
  const Graph::ValueInfo& info = from(old);
  TensorSpec spec = info.spec;
  if (dtype != DType{}) spec.dtype = dtype;
  if (info.role == Graph::Role::input) return made_[old] = to_.input(info.name, std::move(spec));
  if (info.role == Graph::Role::param) return made_[old] = to_.param(info.name, std::move(spec));
  return made_[old] = to_.constant(info.name, std::move(spec), info.constant);
}

void Rewriter::walk(const Visitor& leaf, const Visitor& node) {
  uint32_t next = 0;  // the next value that may be a leaf
  const auto leaves_before = [&](uint32_t end) {
    for (; next < end && good(); ++next) {
      if (from(next).role != Graph::Role::computed) leaf(next);
    }
  };
  for (uint32_t i = 0; i < from().nodes().size() && good(); ++i) {
    leaves_before(first_needed(from().nodes()[i]));
    if (good()) node(i);
  }
  leaves_before(static_cast<uint32_t>(made_.size()));
}

std::vector<std::string> Rewriter::names_of(const Node& node) const {
  std::vector<std::string> out;
  for (const uint32_t index : node.outputs) out.push_back(index == TN_ABSENT ? "" : from(index).name);
  return out;
}

void Rewriter::copy(const Node& node) {
  std::vector<Value> inputs;
  for (const uint32_t index : node.inputs) inputs.push_back(at(index));
  write(node, inputs, node.attributes);
}

std::vector<GraphValue> Rewriter::write(const Node& node, std::span<const Value> inputs,
                                        Graph::Attributes attributes, std::vector<std::string> names) {
  if (names.empty()) names = names_of(node);
  std::vector<Value> made = to_.named(std::move(names)).node(node.op, inputs, std::move(attributes));
  for (size_t i = 0; i < node.outputs.size() && i < made.size(); ++i) {
    if (node.outputs[i] != TN_ABSENT) made_[node.outputs[i]] = made[i];
  }
  return made;
}

GraphValue Rewriter::add(const std::string& name, Op op, std::initializer_list<Value> inputs,
                         Graph::Attributes attributes) {
  return to_.named(fresh(name)).node(op, inputs, std::move(attributes)).front();
}

std::string Rewriter::fresh(const std::string& name) { return take(name, names_); }
std::string Rewriter::fresh_leaf(const std::string& name) {
  std::string free = fresh(name);
  while (outputs_.contains(free)) free = fresh(name);
  return free;
}
std::string Rewriter::fresh_output(const std::string& name) {
  std::string free = take(name, outputs_);
  while (names_.contains(free)) free = take(name, outputs_);
  return free;
}

void Rewriter::note(std::string where, std::string what, std::string reason, bool applied) {
  work_.notes.push_back({pass_, std::move(where), std::move(what), std::move(reason), applied});
}

void Rewriter::note_if_silent(std::string what, std::string reason) {
  if (work_.notes.size() == notes_before_) note("", std::move(what), std::move(reason), false);
}

// A leaf, or a value that is an output under another name, goes out through identity.
void Rewriter::mark(const std::string& name, Value value, std::unordered_set<uint32_t>& marked) {
  const bool is_leaf = to_.values()[value.index].role != Graph::Role::computed;
  if (is_leaf || !marked.insert(value.index).second) {
    value = add(to_.values()[value.index].name + ".out", Op::identity, {value}, {});
    marked.insert(value.index);
  }
  to_.output(name, value);
}

Result<Rewritten> Rewriter::finish() && {
  return std::move(*this).finish([&](const Graph::Output& output) { return at(output.value); });
}

Result<Rewritten> Rewriter::finish(const Chooser& choose) && {
  std::unordered_set<uint32_t> marked;
  for (const Graph::Output& output : from().outputs()) {
    const Value value = good() ? choose(output) : Value{};
    if (value.index != TN_ABSENT && good()) mark(output.name, value, marked);
  }
  for (const auto& [name, value] : more_) {
    if (good()) mark(name, value, marked);
  }
  const Status good = to_.check();
  if (!good.ok()) return Status(TN_INTERNAL, "pass " + pass_ + ": " + std::string(good.message()));
  for (Value& value : work_.values) value = at(value.index);
  work_.graph = std::move(to_);
  return std::move(work_);
}

std::string called(const Graph& graph, const Graph::Node& node) {
  for (const uint32_t index : node.outputs) {
    if (index != TN_ABSENT) return graph.values()[index].name;
  }
  return std::string(name(node.op));
}

const AttributeValue& attribute(const Graph::Node& node, std::string_view name) {
  return std::find_if(node.attributes.begin(), node.attributes.end(),
                      [&](const Attribute& attribute) { return attribute.name == name; })
      ->value;
}

Graph::Attributes with(Graph::Attributes attributes, std::string_view name, AttributeValue value) {
  for (Attribute& attribute : attributes) {
    if (attribute.name != name) continue;
    attribute.value = std::move(value);
    break;
  }
  return attributes;
}

}  // namespace tenon::passes
