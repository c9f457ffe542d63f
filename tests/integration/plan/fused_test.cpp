// SPDX-License-Identifier: Apache-2.0
// Fused is unfused, bit for bit, where the order of operations is kept: over random graphs on every device.
#include "integration/plan/world.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <cstring>

using namespace tenon;
using namespace tenon::test;

namespace {

// Elementwise nodes over two shapes, reductions and transposes, of numbers that stay in range.
Graph random_layers(std::mt19937_64& numbers, size_t nodes) {
  Graph g("random");
  std::vector<Graph::Value> wide{g.input("x", {f32, {6, 8}}), g.input("y", {f32, {6, 8}})};
  std::vector<Graph::Value> narrow{g.param("b", {f32, {8}}), g.param("c", {f32, {6, 1}})};
  const auto any = [&](const std::vector<Graph::Value>& from) { return from[numbers() % from.size()]; };
  while (g.nodes().size() < nodes) {
    switch (numbers() % 8) {
      case 0:
        wide.push_back(g.tanh(g.add(any(wide), any(narrow))));
        break;
      case 1:
        wide.push_back(g.mul(any(wide), any(narrow)));
        break;
      case 2:
        wide.push_back(g.sub(any(wide), any(wide)));
        break;
      case 3:
        narrow.push_back(g.neg(any(narrow)));
        break;
      case 4:
        narrow.push_back(g.reduce_max(any(wide), {1}, true));
        break;
      case 5:
        wide.push_back(g.sigmoid(any(wide)));
        break;
      case 6:
        wide.push_back(g.relu(g.scale(any(wide), 0.5, 0.25)));
        break;
      default:
        wide.push_back(g.max(any(wide), any(wide)));
    }
  }
  g.output("last", wide.back());
  g.output("small", g.sum(g.abs(any(wide)), {1}));
  if (numbers() % 2 == 0) g.output("other", g.neg(any(wide)));
  must(g.check());
  return g;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("fused: random graphs give the bits of their nodes one by one") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  auto numbers = generator();
  const int graphs = full_or("random graphs", 20, 200);
  PlanOptions alone;
  alone.fusion.elementwise = alone.fusion.patterns = alone.fusion.optimizers = false;
  size_t launches_saved = 0;
  for (int i = 0; i < graphs; ++i) {
    CAPTURE(i);
    const Graph g = random_layers(numbers, 4 + numbers() % 30);
    const Plan together = must(plan(g, device)), apart = must(plan(g, device, alone));
    const Named given{{"x", random_floats(48, numbers)},
                      {"y", random_floats(48, numbers)},
                      {"b", random_floats(8, numbers)},
                      {"c", random_floats(6, numbers)}};
    const Named fused = run(together, device, stream, given), single = run(apart, device, stream, given);
    for (const auto& output : single) {
      INFO(together.explain());
      CHECK_MESSAGE(same_bits(fused.at(output.first), output.second), output.first);
    }
    launches_saved += apart.cut().groups.size() - together.cut().groups.size();
  }
  const bool whole_graphs = (device.plugin().features & TN_FEATURE_WHOLE_GRAPH) != 0;
  if (!whole_graphs) CHECK(launches_saved > static_cast<size_t>(graphs));
}
