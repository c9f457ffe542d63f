// SPDX-License-Identifier: Apache-2.0
// The picture holds each node, each leaf and each edge once, with shapes on the edges.
#include <tenon/graph.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace tenon;

namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("dot: nodes, leaves, edges and outputs are drawn once each") {
  Graph g("net");
  const auto x = g.input("x", {f32, {2, 3}});
  const auto w = g.param("w", {f32, {3, 4}});
  g.output("y", g.named("fc").matmul(x, w));
  const std::string picture = g.dot();
  CHECK(picture.find("digraph \"net\" {") == 0);
  CHECK(count(picture, "[label=\"matmul\\nfc\"") == 1);
  CHECK(count(picture, " -> ") == 3);
  CHECK(count(picture, "[label=\"f32[3,4]\"]") == 1);
  CHECK(count(picture, "fillcolor=lightgrey") == 1);
  CHECK(count(picture, "{") == count(picture, "}"));
}

TEST_CASE("dot: quotes in attributes do not end a label") {
  Graph g;
  g.convert_layout(g.input("x", {f32, {2}}), "a\"b\\");
  const std::string picture = g.dot();
  CHECK(picture.find("layout=\\\"a\\\\\\\"b\\\\\\\\\\\"") != std::string::npos);
}
