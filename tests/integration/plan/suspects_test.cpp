// SPDX-License-Identifier: Apache-2.0
// A fusion that computes something else is found among right ones, also where it is wrong only as values lie after passes. The
// plugins are those of tests/wrong, whose single nodes are right.
#include "integration/device.hpp"

#include <cstdlib>

using namespace tenon;
using namespace tenon::test;

namespace {

struct Wrong {
  explicit Wrong(const std::string& name) : runtime(opened(name)), device(must(runtime.device("honest"))) {}
  Runtime runtime;
  Device device;

 private:
  static Runtime opened(const std::string& name) {
    RuntimeOptions options = built_plugins({});
    options.search_path.clear();
    options.plugins = {std::string(std::getenv("TENON_TEST_WRONG_DIR")) + "/tenon-" + name + ".so"};
    return must(Runtime::open(std::move(options)));
  }
};

// Three groups, of which one ends in a maximum.
Graph three_groups() {
  Graph g("groups");
  const auto x = g.input("x", {f32, {8, 16}});
  const auto sums = g.named("sums").sum(g.named("a").add(x, x), {1});
  g.output("right", g.named("b2").add(g.named("b1").add(sums, sums), sums));
  g.output("wrong", g.named("m2").max(g.named("m1").add(sums, sums), sums));
  must(g.check());
  return g;
}

std::vector<std::string> made_by(const Graph& graph, const FusionGroup& group) {
  std::vector<std::string> out;
  for (const uint32_t node : group.nodes)
    out.push_back(graph.values()[graph.nodes()[node].outputs.front()].name);
  return out;
}

// What stays alone gives an image whose channels lie last to a group of two.
passes::Rewritten channels_last() {
  Graph g("images");
  const auto x = g.input("x", {f32, {2, 3, 4, 5}});
  const auto image = g.named("image").add(x, x);
  g.output("y", g.named("b").max(g.named("a").add(image, image), x));
  must(g.check());
  passes::Rewritten work(std::move(g));
  work.placements.push_back({.value = image.index, .strides = {60, 1, 15, 3}});
  return work;
}

}  // namespace

TEST_CASE("suspects: of several fusions the one that is wrong is named, with the output that shows it") {
  Wrong w("fused_drops_tail");
  const Graph g = three_groups();
  size_t fused = 0;
  const Plan made = must(plan(g, w.device));
  for (const FusionGroup& group : made.cut().groups) fused += group.nodes.size() > 1 ? 1 : 0;
  REQUIRE(fused == 3);
  const FusionSuspect suspect = must(bisect(g, w.device));
  REQUIRE(suspect.groups.size() == 1);
  CHECK(made_by(g, suspect.groups.front()) == std::vector<std::string>{"m1", "m2"});
  CHECK(suspect.output == "wrong");
  CHECK(suspect.difference > 1e-2);
}

TEST_CASE("suspects: a right plugin has none") {
  Wrong w("right");
  const FusionSuspect suspect = must(bisect(three_groups(), w.device));
  CHECK(suspect.groups.empty());
  CHECK(suspect.runs == 2);
}

TEST_CASE("suspects: a fusion that is wrong as passes placed its values is found with their placements") {
  Wrong w("fused_ignores_strides");
  const passes::Rewritten work = channels_last();
  PlanOptions options;
  options.fusion.never_fuse = {"image"};
  CHECK_MESSAGE(must(bisect(work.graph, w.device, options)).groups.empty(), "dense it is right");
  const FusionSuspect suspect = must(bisect(work, w.device, options));
  REQUIRE(suspect.groups.size() == 1);
  CHECK(made_by(work.graph, suspect.groups.front()) == std::vector<std::string>{"a", "b"});
  CHECK(suspect.output == "y");
}
