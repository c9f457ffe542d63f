// SPDX-License-Identifier: Apache-2.0
// A step cut where its gradients are summed, and its updates cut into pieces, as graphs.
#include "train/pieces.hpp"

#include <tenon/training.hpp>

#include <doctest/doctest.h>

#include <algorithm>

using namespace tenon;

namespace {

// w, and b of one number without dims; `mean` is renewed by samples.
Graph parted_model() {
  Graph g("model");
  const auto x = g.input("x", {f32, {4, 3}});
  const auto out = g.add(g.mul(x, g.param("w", {f32, {4, 3}})), g.param("b", {f32, {}}));
  g.output("mean.new", g.mean(x, {0, 1}));
  g.output("loss", g.add(g.mean(g.square(out), {0, 1}), g.param("mean", {f32, {}})));
  return g;
}

Result<TrainingGraph> parted_step(bool scales, double clip_norm = 0) {
  TrainingOptions options{.clip_norm = clip_norm, .renewed = {{"mean", "mean.new"}}, .ranks = 2};
  options.optimizer.op = Op::momentum;
  if (scales) options.scaling.emplace();
  return training_graph(parted_model(), "loss", options);
}

std::vector<std::string> leaves_of(const Graph& graph, Graph::Role role) {
  std::vector<std::string> out;
  for (const Graph::ValueInfo& info : graph.values())
    if (info.role == role) out.push_back(info.name);
  std::ranges::sort(out);
  return out;
}
std::vector<std::string> outputs_of(const Graph& graph) {
  std::vector<std::string> out;
  for (const Graph::Output& output : graph.outputs()) out.push_back(output.name);
  std::ranges::sort(out);
  return out;
}
std::ptrdiff_t nodes_of(const Graph& graph, Op op) {
  return std::ranges::count_if(graph.nodes(), [&](const Graph::Node& node) { return node.op == op; });
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("split: the first half ends with the sums, the second begins with them") {
  const auto whole = parted_step(false);
  REQUIRE_MESSAGE(whole.ok(), whole.message());
  const auto halves = train::split(whole->graph, whole->divisor);
  REQUIRE_MESSAGE(halves.ok(), halves.message());
  const Graph &first = halves->gradients.graph, &second = halves->updates.graph;
  CHECK(leaves_of(first, Graph::Role::input) == Names{"x"});
  CHECK(outputs_of(first) == Names{"loss", "mean.new"});
  CHECK(nodes_of(first, Op::all_reduce) == 2);
  CHECK(nodes_of(first, Op::momentum) == 0);
  CHECK(leaves_of(second, Graph::Role::input) == Names{"b.gradient", "training.divisor", "w.gradient"});
  CHECK(outputs_of(second) == Names{"b.next", "b.velocity.next", "w.next", "w.velocity.next"});
  CHECK(nodes_of(second, Op::all_reduce) == 0);
  CHECK(halves->crossings.empty());
}

TEST_CASE("split: what a bad step must not renew crosses, and is renewed behind the verdict") {
  const auto whole = parted_step(true);
  REQUIRE_MESSAGE(whole.ok(), whole.message());
  const auto halves = train::split(whole->graph, whole->divisor);
  REQUIRE_MESSAGE(halves.ok(), halves.message());
  REQUIRE(halves->crossings.size() == 1);
  const auto& [output, input] = halves->crossings.front();
  const Names first = outputs_of(halves->gradients.graph), second = outputs_of(halves->updates.graph);
  CHECK(std::ranges::find(first, output) != first.end());
  const Names inputs = leaves_of(halves->updates.graph, Graph::Role::input);
  CHECK(std::ranges::find(inputs, input) != inputs.end());
  CHECK(std::ranges::find(second, "mean.renewed") != second.end());
  // A rank without samples has nothing to renew it by.
  const auto without = train::updates_only(whole->graph, whole->divisor);
  REQUIRE_MESSAGE(without.ok(), without.message());
  const Names left = outputs_of(without->graph);
  CHECK(std::ranges::find(left, "mean.renewed") == left.end());
  CHECK(std::ranges::find(left, "training.scale.next") != left.end());
}

TEST_CASE("pieces: weights and states are cut alike, and what all have to know is summed before it is read") {
  const auto whole = parted_step(true, 1);
  REQUIRE_MESSAGE(whole.ok(), whole.message());
  const auto halves = train::split(whole->graph, whole->divisor);
  REQUIRE_MESSAGE(halves.ok(), halves.message());
  const std::vector<train::Piece> mine{{.param = "w", .first = 0, .elements = 2},
                                       {.param = "w", .first = 7, .elements = 5}};
  const auto cut = train::update_pieces(halves->updates, mine, 2);
  REQUIRE_MESSAGE(cut.ok(), cut.message());
  const Graph& graph = cut->work.graph;
  CHECK(nodes_of(graph, Op::momentum) == 2);
  CHECK(nodes_of(graph, Op::check_finite_and_unscale) == 1);
  CHECK(nodes_of(graph, Op::all_reduce) == 2);  // the verdict, and the sum of squares
  const Names params = leaves_of(graph, Graph::Role::param), outputs = outputs_of(graph);
  for (const char* name : {"w/0-2", "w/7-12", "w.velocity/0-2", "w.velocity/7-12", "training.rate"})
    CHECK_MESSAGE(std::ranges::find(params, name) != params.end(), name);
  for (const char* name : {"w.next/0-2", "w.velocity.next/7-12", "training.scale.next", "training.norm.now"})
    CHECK_MESSAGE(std::ranges::find(outputs, name) != outputs.end(), name);
  CHECK(std::ranges::find(outputs, "b.next") == outputs.end());  // all of it is another rank's
  const auto b = std::ranges::find(cut->wholes, std::string("b.velocity"), &train::PieceUpdates::Whole::name);
  REQUIRE(b != cut->wholes.end());
  CHECK(b->is_cut);
  CHECK(cut->leaves.size() == 4);

  // A rank without pieces takes the same sums.
  const auto none = train::update_pieces(halves->updates, {}, 2);
  REQUIRE_MESSAGE(none.ok(), none.message());
  CHECK(nodes_of(none->work.graph, Op::all_reduce) == 2);
  CHECK(nodes_of(none->work.graph, Op::momentum) == 0);
}

TEST_CASE("pieces: what does not go element by element is refused by name") {
  Graph g("odd");
  const auto gradient = g.input("w.gradient", {f32, {2, 6}});
  const auto w = g.param("w", {f32, {2, 6}}), rate = g.param("rate", {f32, {}});
  g.output("w.next", g.sgd(w, g.named("rows").softmax(gradient, {{"axis", int64_t{1}}}), rate)[0]);
  REQUIRE_MESSAGE(g.check().ok(), g.check().message());
  const auto cut = train::update_pieces(g, std::vector<train::Piece>{{.param = "w", .elements = 6}}, 2);
  CHECK(cut.code() == TN_UNSUPPORTED);
  CHECK(cut.message() == "executor: sharded: rows: it does not go element by element");
}
