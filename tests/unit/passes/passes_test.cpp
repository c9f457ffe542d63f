// SPDX-License-Identifier: Apache-2.0
// Passes one after the other: order, maps and notes put together, mistakes.
#include "rewriting.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

using Ints = Graph::Ints;

Graph picture() {
  Graph g("picture");
  g.communicator(3, 4);
  const auto x = g.input("x", {f32, {2, 3, 8, 8}});
  const auto c = g.named("c").conv2d(x, g.param("w", {f32, {12, 3, 3, 3}}));
  g.named("dead").exp(c);
  g.output("y", g.named("y").relu(g.named("t").tanh(c)));
  return g;
}

const passes::Options everything{.prune = passes::PruneOptions{},
                                 .amp = passes::AmpOptions{},
                                 .pad = passes::PadOptions{},
                                 .recompute = passes::RecomputeOptions{},
                                 .layout = passes::LayoutOptions{},
                                 .addto = passes::AddtoOptions{},
                                 .in_place = passes::InPlaceOptions{}};

}  // namespace

TEST_CASE("passes: no pass is the graph itself, and its values are found in themselves") {
  const Graph g = picture();
  const passes::Rewritten work = done(passes::run(g, {}));
  CHECK(work.graph.text() == g.text());
  CHECK(work.notes.empty());
  REQUIRE(work.values.size() == g.values().size());
  for (uint32_t i = 0; i < work.values.size(); ++i) CHECK(work.values[i].index == i);
}

TEST_CASE("passes: several are told in order, and values are found through all of them") {
  const Graph g = picture();
  const passes::Rewritten work = done(passes::run(g, everything));
  const std::vector<std::string> order = {"prune", "amp", "pad", "recompute", "layout", "addto", "in_place"};
  size_t at = 0;
  for (const passes::Note& note : work.notes) {
    while (at < order.size() && order[at] != note.pass) ++at;
    REQUIRE_MESSAGE(at < order.size(), passes::explain(work.notes));
  }
  CHECK(at == order.size() - 1);
  const auto now = [&](const char* name) {
    return work.graph.values()[work.values[index_of(g, name)].index];
  };
  CHECK(now("c").spec.dtype == bf16);
  CHECK(now("c").spec.dims == Ints{2, 12, 6, 6});
  CHECK(work.values[index_of(g, "dead")] == GraphValue{});
  CHECK(now("y").name == "y");
  CHECK(spec(work.graph, "c.whole").dims == Ints{2, 16, 6, 6});
  CHECK(writes_over(work, "y", "t"));
}

TEST_CASE("passes: equal graphs and options give equal results") {
  const passes::Rewritten one = done(passes::run(picture(), everything)),
                          other = done(passes::run(picture(), everything));
  CHECK(one.graph.text() == other.graph.text());
  CHECK(passes::explain(one.notes) == passes::explain(other.notes));
  CHECK(one.aliases == other.aliases);
}

TEST_CASE("passes: names, communicators and outputs of the graph stay") {
  const passes::Rewritten work = done(passes::run(picture(), everything));
  CHECK(work.graph.name() == "picture");
  CHECK(work.graph.communicators() == std::map<int64_t, int64_t>{{3, 4}});
  REQUIRE(work.graph.outputs().size() == 1);
  CHECK(work.graph.outputs()[0].name == "y");
}

TEST_CASE("passes: what changes nodes does not come after what speaks of them") {
  const passes::Rewritten placed = done(passes::layout(picture()));
  CHECK(passes::amp(placed).message() ==
        "amp changes nodes, and layouts of the nodes there are were given already: run it before layout, "
        "addto and "
        "in_place");
  const passes::Rewritten aliased = done(passes::in_place(picture()));
  REQUIRE_FALSE(aliased.aliases.empty());
  CHECK(passes::pad(aliased).message().find("pad changes nodes, and aliases") == 0);
  CHECK_FALSE(passes::prune(aliased).ok());
  CHECK_FALSE(passes::layout(aliased).ok());
}

TEST_CASE("passes: a graph with a mistake is refused by each with the mistake") {
  Graph g;
  g.output("y", g.named("y").add(g.input("a", {f32, {2}}), g.input("b", {f32, {3}})));
  const std::string mistake(g.check().message());
  CHECK(passes::prune(g).message() == mistake);
  CHECK(passes::amp(g).message() == mistake);
  CHECK(passes::pad(g).message() == mistake);
  CHECK(passes::recompute(g).message() == mistake);
  CHECK(passes::layout(g).message() == mistake);
  CHECK(passes::addto(g).message() == mistake);
  CHECK(passes::in_place(g).message() == mistake);
  CHECK(passes::run(g, {}).message() == mistake);
}

TEST_CASE("passes: a pass that finds nothing to do says so") {
  Graph g;
  const auto x = g.input("x", {i32, {8, 8}});
  g.output("y", g.named("y").transpose(x, {1, 0}));
  const passes::Rewritten work = done(passes::run(g, everything));
  CHECK(work.graph.text() == g.text());
  CHECK(passes::explain(work.notes) ==
        "- prune: nodes that no output needs: there are none\n"
        "- amp: nodes in bf16: none computes in f32\n"
        "- pad: sizes padded: no matmul or convolution has one that is no multiple of 8\n"
        "- recompute: what relu was given, made again: no relu_grad goes on into a batch_norm_grad\n"
        "- layout: layout nhwc: there is no convolution that would gain\n"
        "- addto: max_inplace_grad_add 8: no sum has a product or convolution among its terms\n"
        "- in_place: results over inputs: no node is of a kind that can\n");
}

TEST_CASE("passes: one line for each note, with a sign for whether it was done") {
  const passes::Note notes[] = {
      {.pass = "amp", .where = "fc", .what = "matmul in bf16", .reason = "white list"},
      {.pass = "pad", .what = "sizes padded", .reason = "none", .applied = false}};
  CHECK(passes::explain(notes) == "+ amp: fc: matmul in bf16: white list\n- pad: sizes padded: none\n");
  CHECK(passes::explain({}).empty());
}

TEST_CASE("passes: a graph of ten thousand nodes is through all of them within seconds") {
  Graph g;
  auto x = g.input("x", {f32, {4, 4}});
  const auto w = g.param("w", {f32, {4, 4}});
  auto sum = g.matmul(x, w);
  for (int i = 0; i < 2500; ++i) {
    const auto h = g.relu(g.matmul(i % 2 == 0 ? x : sum, w));
    sum = g.add(sum, g.add(h, w));
  }
  g.output("y", sum);
  const passes::Rewritten work = done(passes::run(g, everything));
  CHECK(work.graph.nodes().size() >= 10000);
  CHECK_FALSE(work.aliases.empty());
}
