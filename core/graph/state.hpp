// SPDX-License-Identifier: Apache-2.0
// state.hpp: what stands behind a Graph.
//
// Invariant: once `mistake` is set nothing else changes, so every index in here is good for every other list in here.
#pragma once

#include <tenon/graph.hpp>

#include <map>
#include <optional>
#include <unordered_map>

namespace tenon {

struct Graph::State {
  std::string name{};
  uint32_t tag = 0;  // tells handles of different graphs apart
  std::vector<ValueInfo> values{};
  std::vector<Node> nodes{};
  std::vector<Output> outputs{};
  std::vector<bool> is_output{};  // per value
  std::unordered_map<std::string, uint32_t> names{};
  std::map<int64_t, int64_t> ranks{};  // of communicators
  std::optional<Error> mistake{};

  bool broken() const noexcept { return mistake.has_value(); }
  // Remembers the first mistake: "graph 'mlp': where: text". [cannot fail]
  void note(const std::string& where, const std::string& text);
  // Whether `value` is one of this graph.
  bool has(Value value) const noexcept { return value.graph == tag && value.index < values.size(); }
  Value handle(uint32_t index) const noexcept { return {index, index == TN_ABSENT ? 0 : tag}; }

  // A leaf, or an absent handle after a mistake.
  Value leaf(Role role, std::string_view name, TensorSpec spec, std::vector<std::byte> bytes);
  std::vector<Value> node(Op op, std::vector<std::string> names, std::span<const Value> inputs,
                          Attributes attributes);
  void output(std::string_view name, Value value);
  bool has_output(std::string_view name) const noexcept;
  // Calls a value otherwise; false, and nothing changes, where the name is taken or none. [does not block]
  bool rename(uint32_t index, const std::string& wanted);

 private:
  friend struct NodeDraft;
  // Notes why a value cannot be called `wanted`.
  void check_name(std::string_view wanted, const std::string& where);
  uint32_t append(ValueInfo info);
};

}  // namespace tenon
