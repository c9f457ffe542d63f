// SPDX-License-Identifier: Apache-2.0
// Groups grown over elementwise nodes: what joins, what does not and why, and what the device has to say.
#include "support/full.hpp"
#include "support/seed.hpp"
#include "unit/fusion/graphs.hpp"

using namespace tenon;
using namespace tenon::test;

TEST_CASE("elementwise: a chain is one launch, and the bytes between its nodes are saved") {
  Graph g;
  const auto x = g.input("x", {f32, {1024}});
  g.output("out", g.named("z").relu(g.named("y").exp(g.named("w").neg(x))));
  const FusionCut cut = must(fuse(g, willing()));
  check_cut(g, cut);
  CHECK(fused(g, cut, {"w", "y", "z"}));
  CHECK(cut.groups.front().rule == "elementwise");
  CHECK(cut.groups.front().bytes_saved == 4 * 4096);
  CHECK(cut.bytes_before == 6 * 4096);
  CHECK(cut.groups.front().gain_ns == doctest::Approx(2 * 1000 + 4 * 4096 / 10.0));
}

TEST_CASE("elementwise: a product keeps what is before it from what is after it") {
  Graph g;
  const auto x = g.input("x", {f32, {8, 8}});
  const auto a = g.named("a").exp(x), b = g.named("b").matmul(a, a);
  g.output("out", g.named("c").add(g.named("d").neg(b), a));
  const FusionCut cut = must(fuse(g, willing()));
  check_cut(g, cut);
  CHECK(fused(g, cut, {"c", "d"}));
  CHECK(fused(g, cut, {"a"}));
  CHECK(reasons(cut).find("a path leaves and comes back through matmul 'b'") != std::string::npos);
}

TEST_CASE("elementwise: a reduction ends a group, and who reads its result starts another") {
  Graph g;
  const auto x = g.input("x", {f32, {64, 64}});
  const auto e = g.named("e").exp(x), s = g.named("s").sum(e, {1}, true);
  g.output("out", g.named("n").div(g.named("f").neg(x), s));
  const FusionCut cut = must(fuse(g, willing()));
  check_cut(g, cut);
  CHECK(fused(g, cut, {"e", "s"}));
  CHECK(fused(g, cut, {"n", "f"}));
  CHECK(reasons(cut).find("sum 's' is known only when all of its input was read") != std::string::npos);
}

TEST_CASE("elementwise: reductions over different axes do not share a group, those over the same do") {
  Graph g;
  const auto e = g.named("e").exp(g.input("x", {f32, {64, 32}}));
  g.output("rows", g.named("rows_sum").sum(e, {1}));
  g.output("rows_too", g.named("rows_max").reduce_max(e, {1}));
  g.output("columns", g.named("columns_sum").sum(e, {0}));
  const FusionCut cut = must(fuse(g, willing()));
  check_cut(g, cut);
  CHECK(fused(g, cut, {"e", "rows_sum", "rows_max"}));
  CHECK(reasons(cut).find("reduce over different axes") != std::string::npos);
}

TEST_CASE("elementwise: a small value is computed again where that is cheaper than a launch") {
  Graph g;
  const auto small = g.input("small", {f32, {64}}), wide = g.input("wide", {f32, {4, 64}});
  g.output("out", g.named("sum").add(wide, g.named("n").neg(small)));
  const FusionCut cheap = must(fuse(g, willing()));
  check_cut(g, cheap);
  CHECK(fused(g, cheap, {"n", "sum"}));

  Graph large;
  const auto s = large.input("small", {f32, {64}}), w = large.input("wide", {f32, {4096, 64}});
  large.output("out", large.named("sum").add(w, large.named("n").neg(s)));
  const FusionCut dear = must(fuse(large, willing()));
  check_cut(large, dear);
  CHECK(fused(large, dear, {"n"}));
  CHECK(reasons(dear).find("computing [64] again for each element of [4096,64]") != std::string::npos);
}

TEST_CASE("elementwise: a small value that others need stays where it is") {
  Graph g;
  const auto n = g.named("n").neg(g.input("small", {f32, {64}}));
  g.output("out", g.named("sum").add(g.input("wide", {f32, {4, 64}}), n));
  g.output("n_too", n);
  const FusionCut cut = must(fuse(g, willing()));
  CHECK(fused(g, cut, {"n"}));
  CHECK(reasons(cut).find("'n' is [64] in a group over [4,64]") != std::string::npos);
}

TEST_CASE("elementwise: what the device refuses is cut into the longest pieces that it runs") {
  Graph g;
  auto value = g.input("x", {f32, {64}});
  for (int i = 0; i < 10; ++i) value = g.exp(value);
  g.output("out", value);
  const auto target = picky([](const tn_fragment& f) {
    return f.node_count > 4 ? std::to_string(f.node_count) + " nodes are more than 4" : std::string();
  });
  const FusionCut cut = must(fuse(g, target));
  check_cut(g, cut);
  REQUIRE(cut.groups.size() == 3);
  CHECK(cut.groups[0].nodes.size() == 4);
  CHECK(cut.groups[1].nodes.size() == 4);
  CHECK(cut.groups[2].nodes.size() == 2);
  CHECK(reasons(cut).find("test:0: 10 nodes are more than 4") != std::string::npos);
}

TEST_CASE("elementwise: a fusion that the device's own figures call slower is not made") {
  Graph g;
  g.output("out", g.neg(g.exp(g.input("x", {f32, {64}}))));
  FusionTarget target = willing();
  target.supports = [](const Fragment& fragment) -> Result<Support> {
    return Support{.verdict = Verdict::native, .cost_ns = fragment.abi().node_count == 1 ? 100.0 : 300.0};
  };
  const FusionCut cut = must(fuse(g, target));
  CHECK(cut.groups.size() == 2);
  CHECK(reasons(cut).find("no gain: together 0.3 µs are predicted, one by one 0.2 µs") != std::string::npos);
}

TEST_CASE("elementwise: a group has no more inputs and outputs than the device takes") {
  Graph g;
  auto value = g.input("x0", {f32, {64}});
  for (int i = 1; i < 10; ++i) value = g.add(value, g.input("x" + std::to_string(i), {f32, {64}}));
  g.output("out", value);
  FusionTarget target = willing();
  target.max_bindings = 5;
  const FusionCut cut = must(fuse(g, target));
  check_cut(g, cut);
  for (const FusionGroup& group : cut.groups)
    CHECK(must(g.fragment(group.nodes)).fragment.bindings().size() <= 5);
  CHECK(cut.groups.size() == 3);
  CHECK(reasons(cut).find("and test:0 takes 5") != std::string::npos);
}

TEST_CASE("elementwise: cuts of random graphs for moody devices are legal, and the same each time") {
  auto numbers = generator();
  const int graphs = full_or("random graphs", 200, 2'000);
  size_t joined = 0;
  for (int i = 0; i < graphs; ++i) {
    CAPTURE(i);
    const Graph g = random_graph(numbers, 5 + numbers() % 60);
    const uint64_t mood = 1 + numbers() % 4;
    FusionTarget target = picky([mood](const tn_fragment& f) {
      return f.node_count > 1 && (f.identity[0] % 4) >= mood ? std::string("not in the mood") : std::string();
    });
    if (numbers() % 2 == 0) target.max_bindings = 4 + static_cast<uint32_t>(numbers() % 8);
    const FusionCut cut = must(fuse(g, target)), again = must(fuse(g, target));
    check_cut(g, cut);
    CHECK(explain(g, target, cut) == explain(g, target, again));
    joined += g.nodes().size() - cut.dropped.size() - cut.groups.size();
  }
  CHECK(joined > static_cast<size_t>(graphs));
}
