// SPDX-License-Identifier: Apache-2.0
// rewriter.hpp: writes a graph anew, node by node, and keeps track of which value became which.
//
// Invariant: a value keeps its name; what a pass adds is called after the value it is for ("x.bf16"), and no name is ever
// given twice. A graph is written in the order of the old one, so what is valid stays valid.
#pragma once

#include <tenon/passes.hpp>

#include <functional>
#include <string_view>
#include <unordered_set>

namespace tenon::passes {

class Rewriter {
 public:
  using Value = GraphValue;
  using Node = Graph::Node;

  // TN_INVALID for a graph with a mistake, or when nodes were aliased or placed already. [one thread; may fail]
  static Result<Rewriter> begin(Rewritten work, std::string pass);

  const Graph& from() const noexcept { return work_.graph; }
  const Graph::ValueInfo& from(uint32_t old) const { return from().values()[old]; }
  Graph& to() noexcept { return to_; }
  const TensorSpec& spec(Value value) const noexcept { return to_.spec(value); }

  // Every leaf and node of the old graph in the order in which they came, so that a pass without effect gives the same
  // text. It ends at the first mistake, which finish() tells.
  using Visitor = std::function<void(uint32_t)>;
  void walk(const Visitor& leaf, const Visitor& node);

  // What stands for an old value; absent for one that is left out.
  Value at(uint32_t old) const { return old == TN_ABSENT ? Value{} : made_[old]; }
  void set(uint32_t old, Value value) { made_[old] = value; }
  // The leaf, of another type where one is given.
  Value leaf(uint32_t old, DType dtype = DType{});
  // The node as it was, with what its inputs became.
  void copy(const Node& node);
  // The node with these inputs and attributes; its outputs take the places and names of the old ones, or of `names`.
  std::vector<Value> write(const Node& node, std::span<const Value> inputs, Graph::Attributes attributes,
                           std::vector<std::string> names = {});
  // A node of one output that was not there before, called after `name`.
  Value add(const std::string& name, Op op, std::initializer_list<Value> inputs,
            Graph::Attributes attributes);
  // `name`, or with a number behind it where that is taken: of a value, of a leaf, which no output may be called as, and of an
  // output that is called as no value.
  std::string fresh(const std::string& name);
  std::string fresh_leaf(const std::string& name);
  std::string fresh_output(const std::string& name);
  std::vector<std::string> names_of(const Node& node) const;

  void note(std::string where, std::string what, std::string reason, bool applied = true);
  // Why there was nothing to do, where nothing else was told.
  void note_if_silent(std::string what, std::string reason);
  // What a graph cannot say is added here.
  std::vector<Master>& masters() noexcept { return work_.masters; }

  // The graph with its outputs: what `output` gives for each old one; Value{} leaves it out. [one thread; may fail]
  using Chooser = std::function<Value(const Graph::Output&)>;
  Result<Rewritten> finish(const Chooser& output) &&;
  Result<Rewritten> finish() &&;
  // One more output, after those that were there.
  void more_output(std::string name, Value value) { more_.emplace_back(std::move(name), value); }

 private:
  Rewriter(Rewritten work, std::string pass);
  bool good() const { return to_.check().ok(); }
  void mark(const std::string& name, Value value, std::unordered_set<uint32_t>& marked);

  Rewritten work_;
  std::string pass_;
  size_t notes_before_;
  Graph to_;
  std::vector<Value> made_;
  std::unordered_set<std::string> names_, outputs_;  // that are taken
  std::vector<std::pair<std::string, Value>> more_{};
};

// What a note calls a node: its first output, or its op where it has none.
std::string called(const Graph& graph, const Graph::Node& node);
// The attribute, which the node has.
const AttributeValue& attribute(const Graph::Node& node, std::string_view name);
// The attributes with one of them changed.
Graph::Attributes with(Graph::Attributes attributes, std::string_view name, AttributeValue value);

}  // namespace tenon::passes
