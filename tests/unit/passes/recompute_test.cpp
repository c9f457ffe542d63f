// SPDX-License-Identifier: Apache-2.0
// What relu was given, made again on the way back: where, and why not elsewhere.
#include "rewriting.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

struct Block {
  DType dtype = bf16, channel = f32;
  bool adds = false;  // something to what relu is given
  Op activation = Op::relu;
};

// y = activation(bn(x · w) [+ x]), and the gradients of its mean.
Graph block(const Block& what = {}) {
  Graph g("block");
  const TensorSpec image{what.dtype, {2, 3, 4, 5}}, channel{what.channel, {3}};
  const auto x = g.input("x", image);
  const auto h = g.named("h").mul(x, g.param("w", {what.dtype, {1, 3, 1, 1}}));
  const auto scale = g.param("bn.scale", channel), bias = g.param("bn.bias", channel);
  auto given = g.named({"bn", "bn.mean", "bn.inv_std", "bn.new_mean", "bn.new_var"})
                   .batch_norm_train(h, scale, bias, g.param("bn.running_mean", channel),
                                     g.param("bn.running_var", channel))[0];
  if (what.adds) given = g.named("sum").add(given, x);
  const auto y = g.named("y").node(what.activation, {given})[0];
  const auto loss =
      g.named("loss").mean(g.named("squares").square(g.named("wide").cast(y, f32)), {0, 1, 2, 3});
  const auto gradients = g.gradients(loss, std::vector<GraphValue>{g.value(index_of(g, "w")), scale, bias});
  REQUIRE_MESSAGE(gradients.ok(), gradients.message());
  g.output("loss", loss);
  for (size_t i = 0; i < gradients->size(); ++i) g.output("gradient" + std::to_string(i), (*gradients)[i]);
  return g;
}

// What the one node of the kind makes first.
std::string made_by(const Graph& graph, Op op) {
  REQUIRE(count(graph, op) == 1);
  const auto nodes = graph.nodes();
  const auto found =
      std::find_if(nodes.begin(), nodes.end(), [&](const auto& node) { return node.op == op; });
  return graph.values()[found->outputs[0]].name;
}

// Stays as it is, and the line that tells of its relu_grad says why.
void stays(const Graph& graph, const char* why) {
  const passes::Rewritten work = done(passes::recompute(graph));
  CHECK(work.graph.text() == graph.text());
  const std::string line = told(work, made_by(graph, Op::relu_grad));
  CHECK(line.starts_with("- recompute: "));
  CHECK_MESSAGE(line.find(why) != std::string::npos, line);
}

}  // namespace

TEST_CASE(
    "recompute: relu's gradient asks what the batch norm makes again of x, and nobody keeps what relu gave") {
  for (const DType dtype : {f32, f16, bf16}) {
    const Graph before = block({.dtype = dtype});
    const std::string dy = made_by(before, Op::relu_grad);
    CHECK(reads(before, dy, 1) == "y");
    const passes::Rewritten work = done(passes::recompute(before));
    const Graph& g = work.graph;
    CHECK(g.nodes().size() == before.nodes().size() + 1);
    CHECK(reads(g, dy, 1) == "bn.again");
    const char* const inputs[] = {"h", "bn.scale", "bn.bias", "bn.mean", "bn.inv_std"};
    for (size_t i = 0; i < 5; ++i) CHECK(reads(g, "bn.again", i) == inputs[i]);
    CHECK(spec(g, "bn.again").dims == spec(before, "bn").dims);
    CHECK(spec(g, "bn.again").dtype == dtype);
    CHECK(maker(g, "bn.again") + 1 == maker(g, dy));
    CHECK(g.values()[index_of(g, "y")].users.size() == 1);  // the loss
    CHECK(told(work, dy) ==
          "+ recompute: " + dy +
              ": relu_grad makes 'bn' again and need not read 'y': the batch norm's gradient reads "
              "'h' anyway\n");
  }
}

TEST_CASE("recompute: what is made again lies as the image that it is made of") {
  Graph g;
  const TensorSpec image{f16, {2, 8, 4, 6}}, channel{f32, {8}};
  const auto scale = g.param("scale", channel), running = g.input("running", channel);
  const auto c = g.named("c").conv2d(g.input("x", image), g.param("w", {f16, {8, 8, 1, 1}}));
  const auto norm = g.named({"bn", "mean", "inv_std", "new_mean", "new_var"})
                        .batch_norm_train(c, scale, scale, running, running);
  const auto loss = g.mean(g.named("y").relu(norm[0]), {0, 1, 2, 3});
  const auto gradients = g.gradients(loss, std::vector<GraphValue>{scale, g.value(index_of(g, "w"))});
  REQUIRE_MESSAGE(gradients.ok(), gradients.message());
  for (size_t i = 0; i < 2; ++i) g.output("gradient" + std::to_string(i), (*gradients)[i]);
  const passes::Rewritten work =
      done(passes::run(g, {.recompute = passes::RecomputeOptions{}, .layout = passes::LayoutOptions{}}));
  const uint32_t again = index_of(work.graph, "bn.again");
  const auto placed = std::find_if(work.placements.begin(), work.placements.end(),
                                   [&](const passes::Placement& one) { return one.value == again; });
  REQUIRE(placed != work.placements.end());
  CHECK(placed->strides == std::vector<int64_t>{192, 1, 48, 8});
  CHECK(reads(work.graph, "bn.again", 0) == "c");
}

TEST_CASE("recompute: what is read anyway, or cannot be made again to the bit, is read") {
  stays(block({.adds = true}), "relu was given 'sum', which is not what a batch_norm_train gave");
  stays(block({.channel = bf16}), "the mean is kept in bf16, and 'bn' was made of more");
}

TEST_CASE("recompute: a gradient of another normalisation reads what relu gave") {
  Graph g;
  const TensorSpec image{f32, {2, 3, 4, 5}}, channel{f32, {3}};
  const auto x = g.input("x", image), scale = g.param("scale", channel);
  const auto norm = g.named({"bn", "mean", "inv_std", "new_mean", "new_var"})
                        .batch_norm_train(x, scale, scale, scale, scale);
  const auto y = g.named("y").relu(norm[0]);
  const auto dy = g.named("dy").relu_grad(g.input("above", image), y);
  g.output("dx", g.named("dx").batch_norm_grad(dy, g.input("other", image), scale, norm[1], norm[2])[0]);
  stays(g, "the gradient is of another normalisation than that of 'bn'");
}

TEST_CASE("recompute: of two gradients that relu's goes into, the one of the same normalisation counts") {
  for (const bool other_first : {true, false}) {
    Graph g;
    const TensorSpec image{f32, {2, 3, 4, 5}}, channel{f32, {3}};
    const auto x = g.input("x", image), scale = g.param("scale", channel), other = g.input("other", image);
    const auto norm = g.named({"bn", "mean", "inv_std", "new_mean", "new_var"})
                          .batch_norm_train(x, scale, scale, scale, scale);
    const auto y = g.named("y").relu(norm[0]);
    const auto dy = g.named("dy").relu_grad(g.input("above", image), y);
    for (const bool is_other : {other_first, !other_first})
      g.output(is_other ? "elsewhere" : "dx",
               g.batch_norm_grad(dy, is_other ? other : x, scale, norm[1], norm[2])[0]);
    const Graph after = done(passes::recompute(g)).graph;
    CHECK(reads(after, "dy", 1) == "bn.again");
  }
}

TEST_CASE("recompute: y of which nobody knows whether a relu gave it is read") {
  Graph g;
  const TensorSpec image{f32, {2, 3, 4, 5}}, channel{f32, {3}};
  const auto parameter = g.input("parameter", channel);
  const auto dy = g.named("dy").relu_grad(g.input("above", image), g.input("y", image));
  g.output("dx", g.named("dx").batch_norm_grad(dy, g.input("x", image), parameter, parameter, parameter)[0]);
  stays(g, "'y' is not what a relu gave");
}

TEST_CASE("recompute: a graph without a relu behind a batch norm stays as it is, and that is told") {
  const Graph g = block({.activation = Op::tanh});
  const passes::Rewritten work = done(passes::recompute(g));
  CHECK(work.graph.text() == g.text());
  CHECK(passes::explain(work.notes) ==
        "- recompute: what relu was given, made again: no relu_grad goes on into a batch_norm_grad\n");
}

TEST_CASE("recompute: twice is as once") {
  const Graph once = done(passes::recompute(block())).graph;
  CHECK(done(passes::recompute(once)).graph.text() == once.text());
}
