// SPDX-License-Identifier: Apache-2.0
// Looking for a fusion that changes a result.
#include "integration/plan/world.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

// Two chains that a product keeps apart.
Graph two_chains() {
  Graph g;
  const auto x = g.input("x", {f32, {8, 8}});
  const auto a = g.tanh(g.exp(x));
  g.output("y", g.neg(g.sigmoid(g.transpose(g.reshape(a, {8, 8}), {1, 0}))));
  return g;
}

}  // namespace

TEST_CASE("bisect: where nothing differs it says so after two runs") {
  Runtime runtime = open();
  Device device = target(runtime);
  const FusionSuspect suspect = must(bisect(two_chains(), device));
  CHECK(suspect.groups.empty());
  CHECK(suspect.difference <= 1e-2);
  CHECK(suspect.runs == 2);
}

TEST_CASE("bisect: takes fusions away until one is left that makes the difference") {
  Runtime runtime = open();
  Device device = target(runtime);
  const Graph g = two_chains();
  size_t fused = 0;
  const Plan made = must(plan(g, device));
  for (const FusionGroup& group : made.cut().groups) fused += group.nodes.size() > 1 ? 1 : 0;
  if (fused < 2) TENON_SKIP("fusions", device.name() + " fuses nothing of this");
  // Below every bound there is, each fusion alone makes a difference: the first is what is left.
  const FusionSuspect suspect = must(bisect(g, device, {}, -1));
  REQUIRE(suspect.groups.size() == 1);
  CHECK(suspect.groups.front().nodes == std::vector<uint32_t>{0, 1});
  CHECK(suspect.runs == 3);
}
