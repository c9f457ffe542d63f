// SPDX-License-Identifier: Apache-2.0
// graphs.hpp: small and random graphs to cut, targets that answer by rule, and what must hold of every cut.
#pragma once

#include <tenon/fusion.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace tenon::test {

using Indexes = std::vector<uint32_t>;

template <class T>
T must(Result<T> result) {
  REQUIRE_MESSAGE(result.ok(), result.message());
  return std::move(result).take();
}

// A device that runs every fragment as one kernel.
FusionTarget willing();
// One that asks `refusal` first: a text is its reason against.
FusionTarget picky(std::function<std::string(const tn_fragment&)> refusal);

// Elementwise nodes, broadcasts, reductions, products and softmax over small shapes, with several outputs and dead ends.
Graph random_graph(std::mt19937_64& numbers, size_t nodes);

// Every node once, groups in an order in which they can run, groups that are pieces; the totals add up.
void check_cut(const Graph& graph, const FusionCut& cut);

// The nodes of the group that has the value, and its rule.
const FusionGroup& group_of(const Graph& graph, const FusionCut& cut, std::string_view value);
// Whether one group has exactly the nodes that make these values.
bool fused(const Graph& graph, const FusionCut& cut, const std::vector<std::string>& values);
// The reasons of all refusals, a line each.
std::string reasons(const FusionCut& cut);

}  // namespace tenon::test
