// SPDX-License-Identifier: Apache-2.0
// The picture that needs no Graphviz: well-formed whatever names hold, everything in it once, no box over another, every frame
// around its nodes.
#include "support/seed.hpp"

#include <tenon/graph.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <vector>

using namespace tenon;

namespace {

struct Rectangle {
  std::string kind{};
  double x = 0, y = 0, width = 0, height = 0;
  bool holds(const Rectangle& other) const {
    return x <= other.x && y <= other.y && x + width >= other.x + other.width &&
           y + height >= other.y + other.height;
  }
  bool touches(const Rectangle& other) const {
    return x < other.x + other.width && other.x < x + width && y < other.y + other.height &&
           other.y < y + height;
  }
};

// What stands between `before` and the next quote.
std::string quoted_after(const std::string& text, const std::string& before) {
  const size_t at = text.find(before);
  if (at == std::string::npos) return "";
  const size_t begin = at + before.size();
  return text.substr(begin, text.find('"', begin) - begin);
}

// The rectangles of a class, which the page's own ground has none of.
std::vector<Rectangle> rectangles(const std::string& picture) {
  std::vector<Rectangle> out;
  for (size_t at = picture.find("<rect class"); at != std::string::npos;
       at = picture.find("<rect class", at + 1)) {
    const std::string tag = picture.substr(at, picture.find('>', at) - at);
    const auto number = [&](const char* name) {
      return std::strtod(quoted_after(tag, std::string(" ") + name + "=\"").c_str(), nullptr);
    };
    out.push_back(
        {quoted_after(tag, "class=\""), number("x"), number("y"), number("width"), number("height")});
  }
  return out;
}

size_t count(const std::vector<Rectangle>& all, const std::string& kind) {
  return static_cast<size_t>(
      std::count_if(all.begin(), all.end(), [&](const Rectangle& one) { return one.kind == kind; }));
}

// "" when every element that opens is closed in its turn, quotes are in pairs and text holds no bare '<' or '&'; else where
// it is not so.
std::string why_no_xml(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '&' && text.find(';', at) > at + 6) return "a bare ampersand at " + std::to_string(at);
    if (text[at] != '<') {
      ++at;
      continue;
    }
    const size_t end = text.find('>', at);
    if (end == std::string::npos) return "a tag without an end";
    const std::string tag = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.empty() || tag.find('<') != std::string::npos) return "'<' within <" + tag;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "a quote too many in <" + tag;
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.front() == '/') {
      if (open.empty() || "/" + open.back() != tag) return "<" + tag + "> closes something else";
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> stays open";
}

// What is promised of the picture of any graph with any frames.
void check_picture(const Graph& graph, const std::vector<Graph::Frame>& frames = {}) {
  const std::string picture = graph.svg(frames);
  CHECK(why_no_xml(picture) == "");
  const std::vector<Rectangle> all = rectangles(picture);
  const auto leaves = static_cast<size_t>(
      std::count_if(graph.values().begin(), graph.values().end(),
                    [](const Graph::ValueInfo& value) { return value.role != Graph::Role::computed; }));
  CHECK(count(all, "node") == graph.nodes().size());
  CHECK(count(all, "input") + count(all, "param") + count(all, "constant") == leaves);
  CHECK(count(all, "output") == graph.outputs().size());
  for (size_t a = 0; a < all.size(); ++a) {
    for (size_t b = a + 1; b < all.size(); ++b) {
      const bool inside = all[a].kind == "frame" && all[b].kind == "node" && all[a].holds(all[b]);
      CAPTURE(a);
      CAPTURE(b);
      REQUIRE((inside || !all[a].touches(all[b])));
    }
  }
}

size_t inside(const std::vector<Rectangle>& all, const Rectangle& frame) {
  return static_cast<size_t>(std::count_if(
      all.begin(), all.end(), [&](const Rectangle& one) { return one.kind == "node" && frame.holds(one); }));
}

// Two linear layers with what stands around them; nodes 0 to 5.
Graph two_layers() {
  Graph g("mlp");
  const auto x = g.input("x", {f32, {8, 16}});
  const auto hidden =
      g.relu(g.add(g.named("up").matmul(x, g.param("w1", {f32, {16, 32}})), g.param("b1", {f32, {32}})));
  const auto y = g.add(g.named("down").matmul(hidden, g.param("w2", {f32, {32, 16}})), x);
  g.output("y", g.softmax(y));
  return g;
}

// Nodes of one to three outputs over whatever stands there, near or far, used often or never.
Graph anything(std::mt19937_64& random) {
  Graph g("anything");
  std::vector<Graph::Value> made{g.input("x", {f32, {4, 4}}), g.param("w", {f32, {4, 4}})};
  const auto scale = g.param("scale", {f32, {4}});
  const size_t nodes = 5 + random() % 40;
  while (g.nodes().size() < nodes) {
    const auto a = made[random() % made.size()], b = made[random() % made.size()];
    switch (random() % 4) {
      case 0:
        made.push_back(g.neg(a));
        break;
      case 1:
        made.push_back(g.layer_norm(a, scale, scale)[0]);
        break;
      case 2:
        made.push_back(g.input("x" + std::to_string(made.size()), {f32, {4, 4}}));
        break;
      default:
        made.push_back(g.add(a, b));
    }
  }
  for (size_t i = 0; i < made.size(); ++i) {
    const bool computed = g.values()[made[i].index].role == Graph::Role::computed;
    if (computed && random() % 4 == 0) g.output("y" + std::to_string(i), made[i]);
  }
  return g;
}

}  // namespace

TEST_CASE("svg: nodes, leaves and outputs are drawn once each, with types and shapes") {
  const Graph g = two_layers();
  const std::string picture = g.svg();
  check_picture(g);
  CHECK(picture.find("<svg xmlns=\"http://www.w3.org/2000/svg\"") == 0);
  CHECK(picture.find(">up: f32[8,32]</text>") != std::string::npos);
  CHECK(picture.find(">w2: f32[32,16]</text>") != std::string::npos);
  CHECK(picture.find(">softmax</text>") != std::string::npos);
  size_t lines = 0;
  for (size_t at = 0; (at = picture.find("class=\"line\"", at)) != std::string::npos; ++at) ++lines;
  CHECK(lines == 11);  // 10 inputs of nodes and one output
}

TEST_CASE("svg: a frame is drawn around its nodes and around no other") {
  const Graph g = two_layers();
  const std::vector<Graph::Frame> frames = {{"gemm_epilogue", {0, 1, 2}}, {"the end", {4, 5}}};
  check_picture(g, frames);
  const std::string picture = g.svg(frames);
  const std::vector<Rectangle> all = rectangles(picture);
  REQUIRE(count(all, "frame") == 2);
  CHECK(inside(all, all[0]) == 3);
  CHECK(inside(all, all[1]) == 2);
  CHECK(picture.find(">gemm_epilogue</text>") != std::string::npos);
}

TEST_CASE("svg: arrows point down, through frames too") {
  const Graph g = two_layers();
  const std::vector<Rectangle> all = rectangles(g.svg(std::vector<Graph::Frame>{{"two", {1, 2}}}));
  std::vector<Rectangle> nodes;
  std::copy_if(all.begin(), all.end(), std::back_inserter(nodes),
               [](const Rectangle& one) { return one.kind == "node"; });
  REQUIRE(nodes.size() == 6);
  for (size_t i = 1; i < nodes.size(); ++i) CHECK(nodes[i - 1].y + nodes[i - 1].height < nodes[i].y);
}

TEST_CASE("svg: frames that lead into each other, share nodes or have none are drawn as well as can be") {
  const Graph g = two_layers();
  check_picture(g, {{"a", {0, 2}}, {"b", {1}}});  // a → b → a
  const std::vector<Graph::Frame> odd = {{"a", {0, 1}}, {"b", {1, 2}}, {"c", {}}, {"d", {77}}};
  check_picture(g, odd);
  CHECK(count(rectangles(g.svg(odd)), "frame") == 2);
}

TEST_CASE("svg: names and attributes hold what they like") {
  Graph g;
  g.output("y", g.convert_layout(g.input("x", {f32, {2}}), "<\"a\" & 'b'>\x01\xff"));
  check_picture(g, {{"1 < 2 & \"3\"", {0}}});
  CHECK(g.svg().find("layout=&quot;&lt;\\&quot;a\\&quot; &amp; 'b'&gt;\\x01?&quot;") != std::string::npos);
}

TEST_CASE("svg: a graph of nothing is an empty page, and one with a mistake is drawn up to it") {
  CHECK(why_no_xml(Graph().svg()) == "");
  CHECK(rectangles(Graph().svg()).empty());
  Graph g = two_layers();
  g.matmul(g.value(0), g.value(0));
  REQUIRE_FALSE(g.check().ok());
  check_picture(g);
}

TEST_CASE("svg: equal graphs have equal pictures") { CHECK(two_layers().svg() == two_layers().svg()); }

TEST_CASE("svg: whatever the graph and the frames, everything is there once and nothing overlaps") {
  auto random = test::generator();
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    const Graph g = anything(random);
    std::vector<Graph::Frame> frames(3);
    for (uint32_t node = 0; node < g.nodes().size(); ++node) {
      const size_t frame = random() % 6;
      if (frame < frames.size()) frames[frame].nodes.push_back(node);
    }
    check_picture(g);
    check_picture(g, frames);
  }
}
