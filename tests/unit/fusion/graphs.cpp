// SPDX-License-Identifier: Apache-2.0
// graphs.cpp: see graphs.hpp.
#include "unit/fusion/graphs.hpp"

#include <algorithm>

namespace tenon::test {
namespace {

uint32_t node_of(const Graph& graph, std::string_view value) {
  for (const Graph::ValueInfo& info : graph.values()) {
    if (info.name == value) return info.producer;
  }
  FAIL("no value is called " << value);
  return TN_ABSENT;
}

// One more node on values made so far.
Graph::Value one_more(Graph& g, const std::vector<Graph::Value>& rows,
                      const std::vector<Graph::Value>& columns, std::mt19937_64& numbers) {
  const auto any = [&](const std::vector<Graph::Value>& from) { return from[numbers() % from.size()]; };
  switch (numbers() % 8) {
    case 0:
      return g.exp(any(rows));
    case 1:
      return g.add(any(rows), any(columns));
    case 2:
      return g.mul(any(rows), any(rows));
    case 3:
      return g.softmax(any(rows));
    case 4:
      return g.matmul(any(rows), any(rows));
    case 5:
      return g.sub(any(rows), any(rows));
    case 6:
      return g.add(any(rows), g.sum(any(rows), {1}, true));
    default:
      return g.relu(any(rows));
  }
}

}  // namespace

FusionTarget willing() {
  return picky([](const tn_fragment&) { return std::string(); });
}

FusionTarget picky(std::function<std::string(const tn_fragment&)> refusal) {
  FusionTarget target{.device = "test:0", .launch_ns = 1000, .bytes_per_ns = 10};
  target.supports = [refusal = std::move(refusal)](const Fragment& fragment) -> Result<Support> {
    std::string reason = refusal(fragment.abi());
    const Verdict verdict = reason.empty() ? Verdict::native : Verdict::no;
    return Support{.verdict = verdict, .reason = std::move(reason)};
  };
  return target;
}

Graph random_graph(std::mt19937_64& numbers, size_t nodes) {
  Graph g("random");
  std::vector<Graph::Value> rows{g.input("x", {f32, {8, 8}}), g.param("w", {f32, {8, 8}})};
  std::vector<Graph::Value> columns{g.param("b", {f32, {8}}), g.param("c", {f32, {8, 1}})};
  while (g.nodes().size() < nodes) {
    if (numbers() % 6 == 0) {
      columns.push_back(g.neg(columns[numbers() % columns.size()]));
    } else {
      rows.push_back(one_more(g, rows, columns, numbers));
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    const Graph::Value value = rows[2 + numbers() % (rows.size() - 2)];
    if (std::none_of(g.outputs().begin(), g.outputs().end(),
                     [&](const auto& o) { return o.value == value.index; }))
      g.output("out" + std::to_string(i), value);
  }
  REQUIRE_MESSAGE(g.check().ok(), g.check().message());
  return g;
}

void check_cut(const Graph& graph, const FusionCut& cut) {
  std::vector<size_t> at(graph.nodes().size(), SIZE_MAX);
  uint64_t bytes = 0;
  for (size_t i = 0; i < cut.groups.size(); ++i) {
    const FusionGroup& group = cut.groups[i];
    REQUIRE_FALSE(group.nodes.empty());
    CHECK(std::is_sorted(group.nodes.begin(), group.nodes.end()));
    bytes += group.bytes;
    for (const uint32_t node : group.nodes) {
      REQUIRE(at[node] == SIZE_MAX);
      at[node] = i;
    }
    const auto piece = graph.fragment(group.nodes);
    REQUIRE_MESSAGE(piece.ok(), piece.message());
  }
  CHECK(bytes == cut.bytes_after);
  for (const uint32_t node : cut.dropped) {
    REQUIRE(at[node] == SIZE_MAX);
    at[node] = cut.groups.size();
  }
  for (uint32_t node = 0; node < at.size(); ++node) {
    REQUIRE(at[node] != SIZE_MAX);
    for (const uint32_t value : graph.nodes()[node].inputs) {
      const uint32_t producer = value == TN_ABSENT ? TN_ABSENT : graph.values()[value].producer;
      if (producer != TN_ABSENT) REQUIRE(at[producer] <= at[node]);
    }
  }
}

const FusionGroup& group_of(const Graph& graph, const FusionCut& cut, std::string_view value) {
  const uint32_t node = node_of(graph, value);
  for (const FusionGroup& group : cut.groups) {
    if (std::binary_search(group.nodes.begin(), group.nodes.end(), node)) return group;
  }
  FAIL("no group has " << value);
  return cut.groups.front();
}

bool fused(const Graph& graph, const FusionCut& cut, const std::vector<std::string>& values) {
  Indexes nodes;
  for (const std::string& value : values) nodes.push_back(node_of(graph, value));
  std::sort(nodes.begin(), nodes.end());
  return group_of(graph, cut, values.front()).nodes == nodes;
}

std::string reasons(const FusionCut& cut) {
  std::string out;
  for (const FusionRefusal& refusal : cut.refusals) out += refusal.rule + ": " + refusal.reason + "\n";
  return out;
}

}  // namespace tenon::test
