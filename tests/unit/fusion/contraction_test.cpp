// SPDX-License-Identifier: Apache-2.0
// Groups are joined exactly when no path leaves them and comes back, and always stand in an order in which they can run.
#include "fusion/contraction.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"
#include "unit/fusion/graphs.hpp"

#include <algorithm>
#include <set>

using namespace tenon;
using namespace tenon::test;
using fusion::Contraction;

namespace {

// What a group reaches through at least one other, by walking everything.
bool comes_back(const Graph& graph, const Contraction& groups, const std::set<uint32_t>& inside) {
  std::set<uint32_t> seen;
  Indexes open;
  const auto visit_users = [&](uint32_t group, auto&& visit) {
    for (const uint32_t node : groups.nodes_of(group)) {
      for (const uint32_t value : graph.nodes()[node].outputs) {
        for (const uint32_t user : graph.values()[value].users) visit(groups.group_of(user));
      }
    }
  };
  for (const uint32_t group : inside) {
    visit_users(group, [&](uint32_t to) {
      if (!inside.contains(to) && seen.insert(to).second) open.push_back(to);
    });
  }
  bool back = false;
  while (!open.empty()) {
    const uint32_t group = open.back();
    open.pop_back();
    visit_users(group, [&](uint32_t to) {
      if (inside.contains(to)) back = true;
      if (!inside.contains(to) && seen.insert(to).second) open.push_back(to);
    });
  }
  return back;
}

void check_order(const Graph& graph, const Contraction& groups) {
  std::vector<size_t> at(graph.nodes().size());
  size_t next = 0;
  for (const uint32_t group : groups.in_order()) {
    CHECK(groups.nodes_of(group).front() == group);
    for (const uint32_t node : groups.nodes_of(group)) at[node] = next;
    ++next;
  }
  for (uint32_t node = 0; node < at.size(); ++node) {
    for (const uint32_t value : graph.nodes()[node].inputs) {
      const uint32_t producer = graph.values()[value].producer;
      if (producer != TN_ABSENT) REQUIRE(at[producer] <= at[node]);
    }
  }
}

}  // namespace

TEST_CASE("contraction: a path that leaves and comes back is found and told") {
  Graph g;
  const auto x = g.input("x", {f32, {4}});
  const auto a = g.exp(x), b = g.softmax(a), c = g.add(a, b);
  g.output("y", c);
  Contraction groups(g);
  const Indexes ends{0, 2};
  const auto outcome = groups.join(ends);
  CHECK_FALSE(outcome.done);
  CHECK(outcome.path == Indexes{1});
  const Indexes all{0, 1, 2};
  CHECK(groups.join(all).done);
  CHECK(groups.group_of(2) == 0);
}

TEST_CASE("contraction: two groups that would need each other are not made") {
  Graph g;
  const auto x = g.input("x", {f32, {4}});
  const auto a = g.exp(x), b = g.neg(x), c = g.tanh(a), d = g.relu(b);
  g.output("c", c);
  g.output("d", d);
  Contraction groups(g);
  const Indexes a_d{0, 3}, b_c{1, 2};
  CHECK(groups.join(a_d).done);        // a and d, which needs b
  CHECK_FALSE(groups.join(b_c).done);  // b and c, which needs a
  check_order(g, groups);
}

TEST_CASE("contraction: joins what walking everything allows, over random graphs, and nothing else") {
  auto numbers = generator();
  const int graphs = full_or("random graphs", 60, 600);
  for (int i = 0; i < graphs; ++i) {
    CAPTURE(i);
    const Graph g = random_graph(numbers, 10 + numbers() % 40);
    Contraction groups(g);
    for (int round = 0; round < 60; ++round) {
      std::set<uint32_t> chosen;
      const size_t count = 2 + numbers() % 4;
      for (size_t k = 0; k < count; ++k)
        chosen.insert(groups.group_of(static_cast<uint32_t>(numbers() % g.nodes().size())));
      if (chosen.size() < 2) continue;
      const bool legal = !comes_back(g, groups, chosen);
      const Indexes list(chosen.begin(), chosen.end());
      REQUIRE(groups.join(list).done == legal);
      check_order(g, groups);
    }
  }
}

TEST_CASE("contraction: a look that is too short gives up and changes nothing") {
  Graph g;
  auto first = g.exp(g.input("x", {f32, {4}}));
  auto last = first;
  for (int i = 0; i < 10; ++i) last = g.neg(last);
  g.output("y", last);
  Contraction groups(g);
  const Indexes ends{0, 10};
  const auto outcome = groups.join(ends, 3);
  CHECK(outcome.gave_up);
  CHECK_FALSE(outcome.done);
  check_order(g, groups);
}

TEST_CASE("contraction: parts of a group that is cut stand in order") {
  auto numbers = generator(7);
  const Graph g = random_graph(numbers, 30);
  Contraction groups(g);
  Indexes all(g.nodes().size());
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  REQUIRE(groups.join(all).done);
  uint32_t group = 0;
  while (groups.nodes_of(group).size() > 4) group = groups.split(group, 4);
  groups.split(0, 2);
  check_order(g, groups);
}
