// SPDX-License-Identifier: Apache-2.0
// A device computes with a rewritten graph what it computes with the graph.
#include "integration/plan/world.hpp"

#include <algorithm>
#include <cmath>

using namespace tenon;
using namespace tenon::test;

namespace {

Named computed(World& w, const Graph& graph, const Named& given) {
  return run(must(plan(graph, w.device)), w.device, w.stream, given);
}

// Two layers and a sum, none of whose sizes is a multiple of eight.
Graph network() {
  Graph g("network");
  const auto x = g.input("x", {f32, {6, 13}}), w = g.param("w", {f32, {13, 21}}),
             b = g.param("b", {f32, {21}});
  const auto h = g.named("h").relu(g.add(g.matmul(x, w), b));
  const auto y = g.named("y").matmul(h, g.param("v", {f32, {21, 5}}));
  g.output("y", y);
  g.output("sum", g.named("sum").sum(y, {1}));
  return g;
}

// Small whole numbers, so that sums are exact in any order.
Named whole_numbers() {
  std::mt19937_64 random(3);
  Named out{{"x", Floats(6 * 13)}, {"w", Floats(13 * 21)}, {"b", Floats(21)}, {"v", Floats(21 * 5)}};
  for (auto& [name, numbers] : out) {
    for (float& number : numbers) number = static_cast<float>(static_cast<int>(random() % 7) - 3);
  }
  return out;
}

double error_of(const Floats& expected, const Floats& found) {
  double size = 0, apart = 0;
  REQUIRE(expected.size() == found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    size = std::max(size, std::fabs(static_cast<double>(expected[i])));
    apart = std::max(apart, std::fabs(static_cast<double>(expected[i]) - static_cast<double>(found[i])));
  }
  return apart / size;
}

}  // namespace

TEST_CASE("passes: in halves the device computes what it computes in f32, as near as halves are") {
  World w;
  SKIP_IF_UNSUPPORTED(plan(network(), w.device), "matmul");
  std::mt19937_64 random(5);
  Named given = whole_numbers();
  for (auto& [name, numbers] : given) numbers = random_floats(numbers.size(), random);
  const Named expected = computed(w, network(), given);
  for (const DType half : {f16, bf16}) {
    const auto work = must(passes::amp(network(), {.half = half}));
    const Named found = computed(w, work.graph, given);
    const double unit = half == f16 ? 0x1p-11 : 0x1p-8;
    CAPTURE(name(half));
    for (const char* output : {"y", "sum"}) {
      CHECK(error_of(expected.at(output), found.at(output)) < 8 * unit);
      CHECK(error_of(expected.at(output), found.at(output)) > 0);
    }
  }
}

TEST_CASE("passes: with padded sizes the device computes the very same numbers") {
  World w;
  SKIP_IF_UNSUPPORTED(plan(network(), w.device), "matmul");
  const auto work =
      must(passes::run(network(), {.prune = passes::PruneOptions{},
                                   .pad = passes::PadOptions{.max_growth = 8, .all_types = true},
                                   .addto = passes::AddtoOptions{},
                                   .in_place = passes::InPlaceOptions{}}));
  REQUIRE(work.graph.nodes().size() > network().nodes().size());
  const Named given = whole_numbers();
  CHECK(computed(w, work.graph, given) == computed(w, network(), given));
}
