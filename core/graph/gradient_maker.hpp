// SPDX-License-Identifier: Apache-2.0
// gradient_maker.hpp: one node's gradient expressions as nodes of the graph.
//
// Invariant: equal parts of a node's expressions become one node. A row that asks for what is not there is a mistake of the
// table: it is kept in status() and gives absent values.
#pragma once

#include "graph/gradient_rules.hpp"

#include <tenon/graph.hpp>

#include <map>
#include <vector>

namespace tenon::graph {

class GradientMaker {
 public:
  using Value = Graph::Value;

  // `gradients` of the node's outputs; absent ones count as zeros.
  GradientMaker(Graph& graph, Graph::Node node, std::vector<Value> gradients)
      : graph_(graph), node_(std::move(node)), gradients_(std::move(gradients)) {}

  // The gradient of an input.
  Value of_input(uint32_t input, const Expression& expression);
  Status status() && { return std::move(status_); }

 private:
  using Ints = std::vector<int64_t>;
  Value make(const Expression& expression);
  Value call(const Expression& expression);
  Value value(const std::vector<uint32_t>& indexes, uint32_t i);
  AttributeValue attribute(const Expression& source);
  AttributeValue computed(const Expression& source);
  const AttributeValue& own(const std::string& name);
  int64_t integer(const std::string& name);
  const Ints& integers(const std::string& name);
  const Ints& dims(Value value) const { return graph_.spec(value).dims; }
  Value wrong(const std::string& text);

  void flatten(std::vector<Value>& operands);
  Value filled(Value like, double value);
  Value unbroadcast(Value from, Value to);
  Value unreduce(Value from, Value to);
  Value part(Value from);
  Value unslice(Value from, Value to);
  Value unpad(Value from, Value to);
  Value spread(Value from, size_t dim, int64_t step);

  Graph& graph_;
  Graph::Node node_;
  std::vector<Value> gradients_;
  uint32_t input_ = 0;
  std::map<std::string, std::vector<Value>> made_{};  // by the text of a call or number
  Status status_{};
};

}  // namespace tenon::graph
