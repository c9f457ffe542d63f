// SPDX-License-Identifier: Apache-2.0
// The explanation reads as docs/fusion.md shows it.
#include "unit/fusion/graphs.hpp"

using namespace tenon;
using namespace tenon::test;

TEST_CASE("explain: a line of totals, a line for each fusion and each refusal") {
  Graph g;
  const auto x = g.input("x", {f32, {256, 256}});
  const auto y = g.named("y").relu(g.named("s").add(g.named("p").matmul(x, x), g.param("b", {f32, {256}})));
  g.output("out", g.named("m").mean(y, {1}));
  const auto target = picky([](const tn_fragment& f) {
    for (uint32_t i = 1; i < f.node_count; ++i) {
      if (f.nodes[i].op == TN_OP_mean) return std::string("a mean is a launch of its own");
    }
    return std::string();
  });
  const FusionCut cut = must(fuse(g, target));
  CHECK(explain(g, target, cut) ==
        "test:0: 4 nodes in 3 launches, 1 saved; 1.3 MiB moved instead of 1.8 MiB; predicted 134.3 µs "
        "instead of 187.7 µs; "
        "4 questions asked\n"
        "fused    elementwise  add 's' + relu 'y': saves 1 launch, 512.0 KiB, 53.4 µs\n"
        "refused  elementwise  add 's' + relu 'y' + mean 'm': test:0: a mean is a launch of its own (would "
        "save 106.9 µs)\n");
}

TEST_CASE("explain: what the device does not run is told with its reason") {
  Graph g;
  g.output("out", g.named("y").softmax(g.input("x", {f32, {8}})));
  const auto target = picky([](const tn_fragment&) { return std::string("nothing is computed here"); });
  const std::string text = explain(g, target, must(fuse(g, target)));
  CHECK(text.find("not run  alone  softmax 'y': nothing is computed here\n") != std::string::npos);
}

TEST_CASE("explain: a reshape between launches costs nothing, moves nothing and saves nothing") {
  Graph g;
  const auto x = g.named("x").softmax(g.input("in", {f32, {256, 256}}));
  const auto seen = g.named("seen").reshape(x, {65536});
  g.output("out", g.named("y").softmax(seen));
  const auto target = willing();
  const FusionCut cut = must(fuse(g, target));
  CHECK(cut.views == 1);
  CHECK(cut.bytes_before == 4 * 256 * 256 * sizeof(float));
  CHECK(cut.bytes_after == cut.bytes_before);
  CHECK(cut.cost_after_ns == cut.cost_before_ns);
  const std::string text = explain(g, target, cut);
  CHECK_MESSAGE(
      text.starts_with("test:0: 3 nodes in 2 launches and 1 view, 0 saved; 1.0 MiB moved instead of 1.0 MiB"),
      text);

  Graph bound;  // what the caller binds lies where the caller says
  bound.output("out", bound.reshape(bound.input("in", {f32, {4, 4}}), {16}));
  CHECK(must(fuse(bound, target)).views == 0);
}

TEST_CASE("explain: a sum over ranks is an exchange, no launch and nothing that the device refuses") {
  Graph g;
  g.communicator(0, 2);
  const auto sum = [&](const char* name, const Graph::Value& of, const char* reduce) {
    return g.named(name).all_reduce(of, {{"comm", int64_t{0}}, {"reduce", std::string(reduce)}});
  };
  const auto a = g.named("a").softmax(g.input("x", {f32, {256, 256}}));
  g.output("out", g.named("y").softmax(sum("s", a, "sum")));
  const auto target = picky([](const tn_fragment& f) {
    return f.nodes[0].op == TN_OP_all_reduce ? std::string("it has no ranks") : std::string();
  });
  const FusionCut cut = must(fuse(g, target));
  check_cut(g, cut);
  CHECK(cut.exchanges == 1);
  CHECK(group_of(g, cut, "s").rule == "exchange");
  CHECK(cut.questions == 1);
  const std::string text = explain(g, target, cut);
  CHECK_MESSAGE(text.starts_with("test:0: 3 nodes in 2 launches and 1 exchange, 0 saved; 1.0 MiB moved"),
                text);
  CHECK_MESSAGE(text.ends_with("exchange all_reduce 's': summed over ranks, between launches\n"), text);

  g.output("most", g.named("z").neg(sum("m", a, "max")));  // which no plan takes between launches
  const std::string most = explain(g, target, must(fuse(g, target)));
  CHECK_MESSAGE(most.find("not run  alone  all_reduce 'm': it has no ranks") != std::string::npos, most);
}

TEST_CASE("explain: of a long group the middle is counted") {
  Graph g;
  auto value = g.input("x", {f32, {8}});
  for (int i = 0; i < 9; ++i) value = g.exp(value);
  g.output("out", value);
  const std::string text = explain(g, willing(), must(fuse(g, willing())));
  CHECK_MESSAGE(text.find("exp '1' + exp '2' + exp '3' + … 5 more + exp '9'") != std::string::npos, text);
}
