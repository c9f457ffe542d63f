// SPDX-License-Identifier: Apache-2.0
// Devices of different kinds: whole graphs only, optimizers at once, one question for equal pieces, errors that pass through.
#include "unit/fusion/graphs.hpp"

#include <algorithm>
#include <set>
#include <span>

using namespace tenon;
using namespace tenon::test;

namespace {

// `count` parameters of one update each.
Graph updates(int count) {
  Graph g;
  const auto lr = g.input("lr", {f32, {}});
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    const TensorSpec spec{f32, {16 + i}};
    const auto [w, v, master] =
        g.momentum(g.param("w" + n, spec), g.exp(g.input("g" + n, spec)), g.param("v" + n, spec), lr);
    g.output("new_w" + n, w);
    g.output("new_v" + n, v);
  }
  REQUIRE_MESSAGE(g.check().ok(), g.check().message());
  return g;
}

// The same of gradients that are unscaled first, whose scan gives the loss its next scale.
Graph scaled_updates(int count) {
  Graph g;
  const auto lr = g.input("lr", {f32, {}}), scale = g.param("scale", {f32, {}}),
             good = g.param("good", {f32, {}}), bad = g.param("bad", {f32, {}});
  std::vector<Graph::Value> scanned{scale};
  for (int i = 0; i < count; ++i) scanned.push_back(g.exp(g.input("g" + std::to_string(i), {f32, {16 + i}})));
  const auto unscaled = g.node(Op::check_finite_and_unscale, scanned);
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    const TensorSpec spec{f32, {16 + i}};
    const auto [w, v, master] =
        g.momentum(g.param("w" + n, spec), unscaled[static_cast<size_t>(i) + 1], g.param("v" + n, spec), lr);
    g.output("new_w" + n, w);
    g.output("new_v" + n, v);
  }
  const auto next = g.node(Op::update_loss_scaling, {unscaled[0], scale, good, bad});
  g.output("new_scale", next[0]);
  REQUIRE_MESSAGE(g.check().ok(), g.check().message());
  return g;
}

// One that runs no group with two nodes or more in which `op` is.
FusionTarget unwilling_beside_others(Op op) {
  FusionTarget target = willing();
  target.supports = [op](const Fragment& fragment) -> Result<Support> {
    const std::span nodes(fragment.abi().nodes, fragment.abi().node_count);
    const bool has = std::any_of(nodes.begin(), nodes.end(),
                                 [&](const tn_node& node) { return node.op == static_cast<uint32_t>(op); });
    if (nodes.size() > 1 && has) return Support{.verdict = Verdict::no, .reason = "not beside others"};
    return Support{.verdict = Verdict::native};
  };
  return target;
}

}  // namespace

TEST_CASE("target: one that takes whole graphs gets one fragment") {
  Graph g;
  const auto x = g.input("x", {f32, {8, 8}});
  g.output("out", g.relu(g.matmul(x, g.exp(x))));
  FusionTarget target = willing();
  target.whole_graph = true;
  const FusionCut cut = must(fuse(g, target));
  check_cut(g, cut);
  REQUIRE(cut.groups.size() == 1);
  CHECK(cut.groups.front().rule == "whole_graph");
}

TEST_CASE(
    "target: one that takes whole graphs honours what must be together, and says what it cannot honour") {
  Graph g;
  const auto x = g.input("x", {f32, {8, 8}});
  const auto e = g.named("e").exp(x);
  g.named("left").neg(e);
  g.output("out", g.named("y").relu(g.named("p").matmul(x, e)));
  FusionTarget target = willing();
  target.whole_graph = true;
  FusionOptions options;
  options.must_fuse = {{"e", "y"}};
  CHECK(must(fuse(g, target, options)).refusals.empty());
  options.never_fuse = {"e", "l*"};
  options.must_fuse = {};
  options.off = {"elementwise"};
  options.patterns = false;
  const FusionCut cut = must(fuse(g, target, options));
  check_cut(g, cut);
  CHECK(reasons(cut) ==
        "off: test:0 runs whole graphs only: without 'elementwise', patterns it is one launch, too\n"
        "never_fuse: test:0 runs whole graphs only: nothing stays alone\n");
  const std::string told = explain(g, target, cut);
  CHECK_MESSAGE(told.find("refused  never_fuse   exp 'e': test:0 runs") != std::string::npos, told);
  CHECK_MESSAGE(told.find("refused  off          test:0 runs whole graphs only") != std::string::npos, told);

  const auto says = [&](std::vector<std::vector<std::string>> must_fuse, const char* words) {
    options.must_fuse = std::move(must_fuse);
    const auto refused = fuse(g, target, options);
    REQUIRE_FALSE(refused.ok());
    CHECK_MESSAGE(std::string(refused.message()).find(words) != std::string::npos, refused.message());
  };
  says({{"e", "z"}}, "must_fuse: no node makes a value called 'z'");
  says({{"p"}}, "it names matmul 'p' alone");
  says({{"p", "y"}, {"e", "p"}}, "must_fuse [e, p]: never_fuse names exp 'e'");
  says({{"left", "p"}}, "must_fuse [left, p]: nothing needs neg 'left'");
}

TEST_CASE("target: all updates are one group, whatever their shapes") {
  const Graph g = updates(20);
  const FusionCut cut = must(fuse(g, willing()));
  check_cut(g, cut);
  const FusionGroup& group = group_of(g, cut, g.values()[g.outputs().front().value].name);
  CHECK(group.rule == "optimizers");
  CHECK(group.nodes.size() == 20);
  FusionOptions options;
  options.optimizers = false;
  CHECK(must(fuse(g, willing(), options)).groups.size() == 40);
  options.optimizers = true;
  options.never_fuse = {g.values()[g.outputs().front().value].name};
  const FusionCut apart = must(fuse(g, willing(), options));
  REQUIRE(apart.refusals.size() == 1);
  CHECK(apart.refusals.front().rule == "optimizers");
  CHECK(apart.refusals.front().reason == "never_fuse names it, and the other updates go without it");
}

TEST_CASE(
    "target: the scan before updates and the next scale behind it are of their group, as far as the device "
    "takes them") {
  const Graph g = scaled_updates(5);
  struct Case {
    FusionTarget target;
    size_t nodes;
  };
  const Case cases[] = {{willing(), 7},
                        {unwilling_beside_others(Op::update_loss_scaling), 6},
                        {unwilling_beside_others(Op::check_finite_and_unscale), 6}};
  for (const Case& one : cases) {
    const FusionCut cut = must(fuse(g, one.target));
    check_cut(g, cut);
    const FusionGroup& group = group_of(g, cut, g.values()[g.outputs().front().value].name);
    CHECK(group.rule == "optimizers");
    CHECK(group.nodes.size() == one.nodes);
  }
}

TEST_CASE("target: a device that wants fewer bindings says so once, and updates stay alone") {
  const Graph g = updates(20);
  FusionTarget target = willing();
  target.max_bindings = 16;
  const FusionCut cut = must(fuse(g, target));
  check_cut(g, cut);
  CHECK(reasons(cut).find("inputs and outputs, and test:0 takes 16") != std::string::npos);
}

TEST_CASE("target: equal pieces are asked about once") {
  Graph g;
  auto value = g.input("x", {f32, {8, 8}});
  for (int i = 0; i < 50; ++i) value = g.softmax(g.relu(g.exp(value)));
  g.output("out", value);
  std::multiset<Identity> asked;
  FusionTarget target = willing();
  target.supports = [&](const Fragment& fragment) -> Result<Support> {
    asked.insert(fragment.identity());
    return Support{.verdict = Verdict::native};
  };
  const FusionCut cut = must(fuse(g, target));
  check_cut(g, cut);
  for (const Identity& identity : asked) CHECK(asked.count(identity) == 1);
  CHECK(cut.questions == asked.size());
  CHECK(asked.size() <= 5);
}

TEST_CASE("target: its error ends the cut, a mistake in the graph does before") {
  Graph g;
  g.output("out", g.exp(g.input("x", {f32, {8}})));
  FusionTarget target = willing();
  target.supports = [](const Fragment&) -> Result<Support> { return Status(TN_DEVICE_LOST, "gone"); };
  CHECK(fuse(g, target).code() == TN_DEVICE_LOST);
  CHECK(fuse(g, target).message() == "exp '1': gone");
  target.supports = nullptr;
  CHECK(fuse(g, target).code() == TN_INVALID);
  g.exp(Graph::Value{});
  CHECK(fuse(g, willing()).code() == TN_INVALID);
}

TEST_CASE("target: what no output needs does not run, and is told") {
  Graph g;
  const auto x = g.input("x", {f32, {8}});
  g.output("out", g.exp(x));
  static_cast<void>(g.named("idle").softmax(g.named("idler").neg(x)));
  const FusionCut cut = must(fuse(g, willing()));
  check_cut(g, cut);
  CHECK(cut.dropped == Indexes{1, 2});
  CHECK(explain(g, willing(), cut).find("softmax 'idle': no output needs it") != std::string::npos);
}
