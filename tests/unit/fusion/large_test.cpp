// SPDX-License-Identifier: Apache-2.0
// Graphs of training size: legal, and with work that grows as the graph does.
#include "support/blocks.hpp"
#include "support/full.hpp"
#include "unit/fusion/graphs.hpp"

using namespace tenon;
using namespace tenon::test;

TEST_CASE("large: a graph of many blocks is cut alike in each, with as many questions as one block asks") {
  const Graph small = blocks(100), large = blocks(full_or("nodes", size_t{3'000}, size_t{100'000}));
  const FusionCut few = must(fuse(small, willing())), many = must(fuse(large, willing()));
  check_cut(small, few);
  CHECK(many.questions == few.questions);
  const double per_node_small =
      static_cast<double>(few.groups.size()) / static_cast<double>(small.nodes().size());
  const double per_node_large =
      static_cast<double>(many.groups.size()) / static_cast<double>(large.nodes().size());
  CHECK(per_node_large == doctest::Approx(per_node_small).epsilon(0.05));
  CHECK_FALSE(explain(large, willing(), many).empty());
}
