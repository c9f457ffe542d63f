// SPDX-License-Identifier: Apache-2.0
// What nodes move, alone and together.
#include "fusion/cost.hpp"
#include "unit/fusion/graphs.hpp"

using namespace tenon;
using namespace tenon::test;
using fusion::CostModel;

TEST_CASE("cost: a value that crosses the border counts once, one that stays inside not at all") {
  Graph g;
  const auto x = g.input("x", {f32, {100}});
  const auto a = g.exp(x), b = g.mul(a, x), c = g.add(b, a);
  g.output("c", c);
  const FusionTarget target = willing();
  CostModel costs(g, target);
  const auto all = costs.traffic(Indexes{0, 1, 2});
  CHECK(all.bytes == 800);
  CHECK(all.bindings == 2);
  const auto two = costs.traffic(Indexes{0, 1});
  CHECK(two.bytes == 400 + 400 + 400);  // x, a, b
  CHECK(costs.cost_ns(all) == doctest::Approx(1000 + 80));
}

TEST_CASE("cost: too many values at a time are written and read again") {
  Graph g;
  const auto x = g.input("x", {f32, {100}});
  std::vector<Graph::Value> made;
  for (int i = 0; i < 40; ++i) made.push_back(g.exp(x));
  auto sum = made[0];
  for (size_t i = 1; i < made.size(); ++i) sum = g.add(sum, made[i]);
  g.output("sum", sum);
  const FusionTarget target = willing();
  CostModel costs(g, target);
  Indexes all(g.nodes().size());
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  const auto traffic = costs.traffic(all);
  CHECK(traffic.bytes == 800);
  CHECK(traffic.spilled >= 2 * 400 * 10);
  CHECK(costs.traffic(std::span(all).first(10)).spilled == 0);
}

TEST_CASE("cost: a group that holds its inputs longer makes the peak grow") {
  Graph g;
  // Two halvings: one by one each input is free before the next output is made.
  const auto a = g.exp(g.input("a", {f32, {1000}})), b = g.exp(g.input("b", {f32, {1000}}));
  const auto sa = g.sum(a, {0}), sb = g.sum(b, {0});
  g.output("sa", sa);
  g.output("sb", sb);
  const FusionTarget target = willing();
  CostModel costs(g, target);
  CHECK(costs.traffic(Indexes{2, 3}).growth <= 4);
  CHECK(costs.traffic(Indexes{0, 1, 2, 3}).growth == 0);
}
