// SPDX-License-Identifier: Apache-2.0
// Layouts, rule by rule.
#include "rewriting.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

using Ints = Graph::Ints;

// The strides the value is placed with; {} where it is dense.
Ints strides(const passes::Rewritten& work, std::string_view name) {
  for (const passes::Placement& placement : work.placements) {
    if (placement.value == index_of(work.graph, name)) return placement.strides;
  }
  return {};
}

// conv, batch norm, relu, conv, and a way around.
Graph block() {
  Graph g("block");
  const auto x = g.input("x", {f16, {2, 8, 4, 6}});
  const auto channel = [&](const char* name) { return g.param(name, {f32, {8}}); };
  const auto w = [&](const char* name) { return g.param(name, {f16, {8, 8, 3, 3}}); };
  const auto same = Graph::Attributes{{"pad", Ints{1, 1, 1, 1}}};
  const auto c1 = g.named("c1").conv2d(x, w("w1"), same);
  const auto n1 = g.named("n1").batch_norm_infer(c1, channel("s"), channel("b"), channel("m"), channel("v"));
  const auto c2 = g.named("c2").conv2d(g.named("r1").relu(n1), w("w2"), same);
  g.output("y", g.named("y").add(c2, x));
  return g;
}

}  // namespace

TEST_CASE(
    "layout: a chain of convolutions is converted where it begins and where it ends, and nowhere else") {
  const passes::Rewritten work = done(passes::layout(block()));
  for (const char* name : {"c1", "n1", "r1", "c2", "y"}) CHECK(strides(work, name) == Ints{192, 1, 48, 8});
  CHECK(reads(work.graph, "c1", 0) == "x.nhwc");
  CHECK(reads(work.graph, "y", 1) == "x.nhwc");
  CHECK(reads(work.graph, "c2", 0) == "r1");
  CHECK(output(work.graph, "y") == "y.dense");
  CHECK(strides(work, "y.dense").empty());
  CHECK(count(work.graph, Op::convert_layout) == 4);  // x, two filters, y
}

TEST_CASE("layout: shapes, names and types stay, only strides are said") {
  const Graph g = block();
  const passes::Rewritten work = done(passes::layout(g));
  for (const char* name : {"c1", "n1", "y"}) CHECK(spec(work.graph, name).dims == spec(g, name).dims);
  CHECK(spec(work.graph, "c1").strides.empty());
  CHECK(work.graph.value(index_of(work.graph, "c1")) == work.values[index_of(g, "c1")]);
}

TEST_CASE("layout: filters lie as images do") {
  CHECK(strides(done(passes::layout(block())), "w1.nhwc") == Ints{72, 1, 24, 8});
}

TEST_CASE("layout: filters stay as they came where the device would rather have them so") {
  const passes::Rewritten work = done(passes::layout(block(), {.filters = false}));
  CHECK(reads(work.graph, "c1", 1) == "w1");
  CHECK(count(work.graph, Op::convert_layout) == 2);  // x and y
  Graph g;
  const auto x = g.input("x", {f16, {2, 8, 4, 6}}), dy = g.input("dy", {f16, {2, 8, 4, 6}});
  g.output("dw", g.named("dw").conv2d_grad_weight(
                     x, dy, {{"pad", Ints{1, 1, 1, 1}}, {"weight_shape", Ints{8, 8, 3, 3}}}));
  CHECK(output(done(passes::layout(g, {.filters = false})).graph, "dw") == "dw");
}

TEST_CASE("layout: what repeats a smaller value is written as its reader would have it") {
  Graph g;
  const auto c = g.named("c").conv2d(g.input("x", {f16, {2, 8, 4, 6}}), g.param("w", {f16, {8, 8, 1, 1}}));
  const auto wide = g.named("wide").broadcast_to(g.input("mean", {f16, {2, 8, 1, 1}}), {2, 8, 4, 6});
  g.output("y", g.named("y").mul(c, wide));
  const passes::Rewritten work = done(passes::layout(g));
  CHECK(strides(work, "wide") == Ints{192, 1, 48, 8});
  CHECK(reads(work.graph, "y", 1) == "wide");
  CHECK(count(work.graph, Op::convert_layout) == 2);  // x, y
  g.output("wide", wide);
  const passes::Rewritten both = done(passes::layout(g));
  CHECK(output(both.graph, "wide") == "wide.dense");
  CHECK(count(both.graph, Op::convert_layout) == 3);
}

TEST_CASE("layout: a leaf that is declared channels-last is read as it is") {
  Graph g;
  const auto x = g.input("x", {f16, {2, 8, 4, 6}, {192, 1, 48, 8}});
  g.output("y", g.named("y").conv2d(x, g.param("w", {f16, {8, 8, 1, 1}})));
  const passes::Rewritten work = done(passes::layout(g));
  CHECK(reads(work.graph, "y", 0) == "x");
  CHECK(count(work.graph, Op::convert_layout) == 1);  // y; a filter of one place lies alike both ways
}

TEST_CASE("layout: images whose two orders are the same are never converted") {
  Graph g;
  const auto x = g.input("x", {f16, {2, 1, 4, 6}});
  g.output("y", g.named("y").conv2d(x, g.param("w", {f16, {1, 1, 3, 3}})));
  const passes::Rewritten work = done(passes::layout(g));
  CHECK(work.graph.text() == g.text());
  CHECK(work.placements.empty());
  CHECK(told(work, "") == "- layout: layout nhwc: there is no convolution that would gain\n");
}

TEST_CASE("layout: who cannot follow reads a dense value, converted once") {
  Graph g;
  const auto c = g.named("c").conv2d(g.input("x", {f16, {2, 8, 4, 6}}), g.param("w", {f16, {8, 8, 1, 1}}));
  g.output("sum", g.named("sum").sum(c, {1}));
  g.output("flat", g.named("flat").reshape(c, {2, -1}));
  const passes::Rewritten work = done(passes::layout(g));
  CHECK(reads(work.graph, "sum", 0) == "c.dense");
  CHECK(reads(work.graph, "flat", 0) == "c.dense");
  CHECK(count(work.graph, Op::convert_layout) == 2);
}

TEST_CASE(
    "layout: pools, pads and joined channels go along, and what has no places ends the chain for nothing") {
  Graph g;
  const auto c = g.named("c").conv2d(g.input("x", {f16, {2, 8, 4, 6}}), g.param("w", {f16, {8, 8, 1, 1}}));
  const auto pool = g.named("pool").max_pool(c, {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}});
  const auto both = g.named("both").concat({pool, pool}, 1);
  const auto one = g.named("one").global_pool(both);
  g.output("flat", g.named("flat").reshape(one, {2, 16}));
  const passes::Rewritten work = done(passes::layout(g));
  CHECK(strides(work, "pool") == Ints{48, 1, 24, 8});
  CHECK(strides(work, "both") == Ints{96, 1, 48, 16});
  CHECK(strides(work, "one").empty());
  CHECK(reads(work.graph, "flat", 0) == "one");
  CHECK(count(work.graph, Op::convert_layout) == 1);
}

TEST_CASE("layout: a small operand that is broadcast is read as it lies") {
  Graph g;
  const auto c = g.conv2d(g.input("x", {f16, {2, 8, 4, 6}}), g.param("w", {f16, {8, 8, 1, 1}}));
  g.output("y", g.named("y").add(c, g.param("b", {f16, {8, 1, 1}})));
  const passes::Rewritten work = done(passes::layout(g));
  CHECK(reads(work.graph, "y", 1) == "b");
  CHECK(strides(work, "y") == Ints{192, 1, 48, 8});
}

TEST_CASE("layout: an image that is broadcast is no reason to convert what it is added to") {
  Graph g;
  const auto c = g.named("c").conv2d(g.input("x", {f16, {1, 8, 4, 6}}), g.param("w", {f16, {8, 8, 1, 1}}));
  const auto batch = g.input("batch", {f16, {5, 8, 4, 6}});
  g.output("y", g.named("y").add(c, batch));
  const passes::Rewritten work = done(passes::layout(g));
  CHECK(reads(work.graph, "y", 0) == "c.dense");
  CHECK(reads(work.graph, "y", 1) == "batch");
}

TEST_CASE("layout: a graph without convolutions stays, and it says so") {
  Graph g;
  g.output("y", g.relu(g.input("x", {f16, {2, 8, 4, 6}})));
  const passes::Rewritten work = done(passes::layout(g));
  CHECK(work.graph.text() == g.text());
  CHECK(told(work, "") == "- layout: layout nhwc: there is no convolution that would gain\n");
}

TEST_CASE("layout: a private layout goes through what has the same shape, filters and pools stay dense") {
  Graph g;
  const auto x = g.input("x", {f16, {2, 16, 4, 6}});
  const auto c = g.named("c").conv2d(x, g.param("w", {f16, {16, 16, 1, 1}}));
  const auto r = g.named("r").relu(c);
  const auto wide = g.named("wide").add(r, g.param("b", {f16, {2, 16, 4, 6}}));
  g.output("pool", g.named("pool").max_pool(wide, {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}}));
  const passes::Rewritten work = done(passes::layout(g, {.prefer = "NC16HW16"}));
  CHECK(reads(work.graph, "c", 0) == "x.NC16HW16");
  CHECK(reads(work.graph, "c", 1) == "w");
  CHECK(reads(work.graph, "wide", 1) == "b.NC16HW16");
  CHECK(reads(work.graph, "pool", 0) == "wide.dense");
  REQUIRE(work.placements.size() == 5);
  for (const passes::Placement& placement : work.placements) CHECK(placement.layout == "NC16HW16");
}

TEST_CASE("layout: nchw is what graphs are in, and no name is a mistake") {
  const Graph g = block();
  const passes::Rewritten work = done(passes::layout(g, {.prefer = "nchw"}));
  CHECK(work.graph.text() == g.text());
  CHECK(told(work, "") == "- layout: layout nchw: graphs are in it\n");
  CHECK(passes::layout(g, {.prefer = "no name"}).message().find("layout: prefer 'no name' is no layout") ==
        0);
  CHECK_FALSE(passes::layout(g, {.prefer = ""}).ok());
}
