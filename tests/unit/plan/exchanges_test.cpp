// SPDX-License-Identifier: Apache-2.0
// Sums over ranks are taken out of a cut, and what needs them comes behind all that does not.
#include "plan/exchanges.hpp"

#include <doctest/doctest.h>

using namespace tenon;

namespace {

const Graph::Attributes sum{{"comm", int64_t{0}}, {"reduce", std::string("sum")}};

// Each node alone, in run order.
FusionCut alone(const Graph& g) {
  FusionCut cut;
  for (uint32_t i = 0; i < g.nodes().size(); ++i) cut.groups.push_back({.nodes = {i}, .rule = "alone"});
  return cut;
}

Graph ranked() {
  Graph g("ranked");
  g.communicator(0, 2);
  return g;
}

void refused(const Graph& g, FusionCut cut, const std::string& part,
             const std::vector<std::string>& with = {}) {
  const auto out = plan_room::take_out(g, cut, with);
  CHECK_MESSAGE(std::string(out.message()).find(part) != std::string::npos, out.message());
}

}  // namespace

TEST_CASE("exchanges: groups before, groups behind, each in its order") {
  Graph g = ranked();
  const auto x = g.input("x", {f32, {4}}), d = g.input("d", {f32, {4}});
  const auto a = g.neg(x);                         // 0
  const auto s = g.all_reduce(a, sum);             // 1
  const auto late = g.neg(s);                      // 2
  const auto b = g.square(x);                      // 3
  const auto t = g.all_reduce(b, sum);             // 4
  const auto with = g.neg(d);                      // 5
  const auto early = g.abs(x);                     // 6
  const auto left = g.add(late, t);                // 7
  g.output("o", g.add(left, g.add(with, early)));  // 8, 9
  FusionCut cut = alone(g);
  const std::vector<std::string> with_sums{"d"};
  const auto out = plan_room::take_out(g, cut, with_sums);
  REQUIRE_MESSAGE(out.ok(), out.message());
  std::vector<uint32_t> order;
  for (const FusionGroup& group : cut.groups) order.push_back(group.nodes[0]);
  CHECK(order == std::vector<uint32_t>{0, 3, 6, 2, 7, 5, 8, 9});
  CHECK(out->first_late == 3);
  CHECK(out->first_with_all == 5);
  CHECK(out->read == std::vector<std::vector<uint32_t>>{{}, {}, {}, {0}, {1}, {}, {}, {}});
  REQUIRE(out->all.size() == 2);
  CHECK(out->all[0].after == 0);
  CHECK(out->all[1].after == 1);
}

TEST_CASE("exchanges: who needs what is sent first comes first, whatever else stands before it") {
  Graph g = ranked();
  const auto x = g.input("x", {f32, {4}});
  const auto a = g.neg(x), b = g.square(x), c = g.abs(x);  // 0, 1, 2
  const auto sum_c = g.all_reduce(c, sum);                 // 3
  const auto sum_b = g.all_reduce(b, sum);                 // 4
  const auto sum_a = g.all_reduce(a, sum);                 // 5
  const auto of_c = g.neg(sum_c);                          // 6
  const auto of_b_and_c = g.add(sum_b, of_c);              // 7
  const auto of_b = g.neg(sum_b);                          // 8
  const auto of_a = g.neg(sum_a);                          // 9
  g.output("o", g.add(g.add(of_a, of_b), of_b_and_c));     // 10, 11
  FusionCut cut = alone(g);
  const auto out = plan_room::take_out(g, cut, {});
  REQUIRE_MESSAGE(out.ok(), out.message());
  std::vector<uint32_t> order;
  for (const FusionGroup& group : cut.groups) order.push_back(group.nodes[0]);
  CHECK(order == std::vector<uint32_t>{0, 1, 2, 9, 8, 10, 6, 7, 11});
  CHECK(out->first_with_all == 9);
  CHECK(out->read[3] == std::vector<uint32_t>{2});
  CHECK(out->read[7] == std::vector<uint32_t>{1});  // that of c it has from another
}

TEST_CASE("exchanges: what cannot be done between launches is refused with its node") {
  Graph leaf = ranked();
  leaf.output("o", leaf.neg(leaf.all_reduce(leaf.input("x", {f32, {4}}), sum)));
  refused(leaf, alone(leaf), "'x' is a leaf");

  Graph twice = ranked();
  const auto first = twice.named("first").all_reduce(twice.neg(twice.input("x", {f32, {4}})), sum);
  twice.output("o", twice.neg(twice.named("second").all_reduce(twice.neg(first), sum)));
  refused(twice, alone(twice), "all_reduce 'second': it needs another sum");

  Graph output = ranked();
  output.output("o", output.all_reduce(output.neg(output.input("x", {f32, {4}})), sum));
  refused(output, alone(output), "output 'o' is its sum as it is");

  Graph most = ranked();
  const Graph::Attributes max{{"comm", int64_t{0}}, {"reduce", std::string("max")}};
  most.output("o", most.neg(most.all_reduce(most.neg(most.input("x", {f32, {4}})), max)));
  refused(most, alone(most), "only sums are taken");

  Graph whole = ranked();
  whole.output("o", whole.neg(whole.all_reduce(whole.neg(whole.input("x", {f32, {4}})), sum)));
  FusionCut one;
  one.groups.push_back({.nodes = {0, 1, 2}, .rule = "whole_graph"});
  refused(whole, one, "it is in a group of the device");
  refused(whole, alone(whole), "with_sums names 'y', which is no input", {"y"});
}
