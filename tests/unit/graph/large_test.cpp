// SPDX-License-Identifier: Apache-2.0
// A graph of 100,000 nodes is built, checked, differentiated, written and read in time that grows with its size.
#include <tenon/graph.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>

using namespace tenon;

namespace {

Graph chain(int nodes) {
  Graph g;
  auto y = g.param("w", {f32, {8}});
  for (int i = 0; i < nodes; i += 2) y = g.tanh(g.add(y, g.value(0)));
  g.output("y", y);
  return g;
}

double seconds(auto work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("large: 100,000 nodes go through everything") {
  constexpr int nodes = 100'000;
  Graph g;
  std::string text;
  const double built = seconds([&] { g = chain(nodes); });
  REQUIRE(g.check().ok());
  CHECK(g.nodes().size() == nodes);
  CHECK(g.values()[0].users.size() == nodes / 2);
  const double written = seconds([&] { text = g.text(); });
  const double read = seconds([&] { CHECK(Graph::parse(text).ok()); });
  const double differentiated = seconds([&] {
    const auto seed = g.constant({f32, {8}}, 1);
    CHECK(g.gradients(g.value(g.outputs()[0].value), {g.value(0)}, seed).ok());
  });
  std::printf("built %.3f s, written %.3f s, read %.3f s, differentiated %.3f s\n", built, written, read,
              differentiated);
  // Far above what it takes even under a sanitizer; far below what anything quadratic would take.
  CHECK(built + written + read + differentiated < 60);
}
