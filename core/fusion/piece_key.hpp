// SPDX-License-Identifier: Apache-2.0
// piece_key.hpp: what tells pieces of a graph apart, without building a fragment of each.
//
// Invariant: equal keys mean that Graph::fragment gives equal fragments, so a device answers the same.
#pragma once

#include <tenon/graph.hpp>

#include <span>
#include <string>
#include <vector>

namespace tenon::fusion {

class PieceKeys {
 public:
  explicit PieceKeys(const Graph& graph);

  // Of nodes, ascending. The text is good until the next call. [one thread]
  const std::string& key(std::span<const uint32_t> nodes);

 private:
  void add(const TensorSpec& spec);
  void add(const AttributeValue& value);
  void add_input(uint32_t value);
  void add_output(uint32_t value);
  template <class Number>
  void put(Number number);

  const Graph& graph_;
  std::vector<bool> is_output_;         // per value
  std::vector<uint32_t> stamp_, seen_;  // per node, per value: the question it was last part of
  std::vector<uint32_t> number_;        // per value: its number within the piece
  uint32_t now_ = 0, next_ = 0;
  std::string key_;
};

}  // namespace tenon::fusion
