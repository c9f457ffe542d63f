// SPDX-License-Identifier: Apache-2.0
// random_graph.hpp: a small graph out of a seed, with numbers for its leaves: elementwise nodes with broadcast, reductions,
// products, convolutions, normalisations, softmax, lookups, movement, gradients and optimizers, several outputs, dead ends.
//
// Invariant: equal seeds give equal graphs, a graph is valid, and every number in it is finite in double precision.
#pragma once

#include "support/interpreter.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace tenon::test {

using Leaves = std::map<std::string, conform::Tensor>;  // by name

struct RandomGraph {
  Graph graph{"random"};
  Leaves leaves{};
};

struct RandomGraphOptions {
  int steps = 12;           // each makes one node, or the few that belong together
  bool images = true;       // convolutions and what goes with them
  bool training = true;     // at times gradients, and optimizers of some parameters
  bool normalised = false;  // relus behind batch norms at the end, and always gradients
  bool attentive = false;   // attention by products at the end, and always gradients
};

// [one thread; throws std::logic_error when it made a graph with a mistake]
RandomGraph random_graph(uint64_t seed, const RandomGraphOptions& options = {});

// What every leaf of `graph` holds, by value. A leaf without numbers is an error of the test: std::out_of_range.
Tensors bound(const Graph& graph, const Leaves& leaves);
// "" when the two hold the same numbers (NaN is NaN, -0 is 0) in the same dims, to `bound` of 1 + |expected|, or where they differ.
std::string difference(const conform::Tensor& expected, const conform::Tensor& found, double bound = 0);

}  // namespace tenon::test
