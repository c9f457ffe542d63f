// SPDX-License-Identifier: Apache-2.0
// Graphs of training size: legal, and with work that grows as the graph does.
#include "support/full.hpp"
#include "unit/fusion/graphs.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

// Residual blocks: product, bias, activation, normalisation by hand, and the way around it.
Graph blocks(size_t nodes) {
  Graph g("blocks");
  auto x = g.input("x", {f32, {64, 64}});
  const auto w = g.param("w", {f32, {64, 64}}), b = g.param("b", {f32, {64}});
  while (g.nodes().size() < nodes) {
    const auto h = g.gelu(g.add(g.matmul(x, w), b));
    const auto centred = g.sub(h, g.mean(h, {1}, true));
    x = g.add(x, g.mul(centred, g.rsqrt(g.mean(g.square(centred), {1}, true))));
  }
  g.output("out", x);
  return g;
}

}  // namespace

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
