// SPDX-License-Identifier: Apache-2.0
// Pruning, rule by rule.
#include "rewriting.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

const TensorSpec small{f32, {4}};

// Two parameters, each with its update: y = (x·a)·b.
Graph trained() {
  Graph g;
  const auto x = g.input("x", {f32, {4, 4}}), lr = g.input("lr", {f32, {}});
  const auto a = g.param("a", {f32, {4, 4}}), b = g.param("b", {f32, {4, 4}});
  const auto loss = g.named("loss").mean(g.matmul(g.named("h").matmul(x, a), b), {0, 1});
  const auto gradients = g.gradients(loss, {a, b});
  REQUIRE(gradients.ok());
  g.output("loss", loss);
  g.output("a.next",
           g.named({"new_a", "va", ""}).momentum(a, (*gradients)[0], g.param("ma", {f32, {4, 4}}), lr)[0]);
  g.output("b.next",
           g.named({"new_b", "vb", ""}).momentum(b, (*gradients)[1], g.param("mb", {f32, {4, 4}}), lr)[0]);
  return g;
}

}  // namespace

TEST_CASE("prune: nodes that no output needs go, one after the other") {
  Graph g;
  const auto x = g.input("x", small);
  g.named("dead2").exp(g.named("dead").neg(x));
  g.output("y", g.named("y").relu(x));
  const passes::Rewritten work = done(passes::prune(g));
  CHECK(work.graph.nodes().size() == 1);
  CHECK(work.values[index_of(g, "dead")] == GraphValue{});
  CHECK(work.graph.spec(work.values[index_of(g, "y")]).dims == small.dims);
  CHECK(told(work, "dead") == "+ prune: dead: neg left out: no output needs it\n");
}

TEST_CASE("prune: parameters and constants go with their last reader, inputs stay as they are bound") {
  Graph g;
  const auto x = g.input("x", small);
  g.mul(g.input("label", small), g.param("w", small));
  g.output("y", g.relu(x));
  const passes::Rewritten work = done(passes::prune(g));
  CHECK(has(work.graph, "label"));
  CHECK_FALSE(has(work.graph, "w"));
  CHECK(told(work, "w") == "+ prune: w: left out: nobody reads it any more\n");
}

TEST_CASE("prune: a graph that needs all it has stays as it is") {
  const Graph g = trained();
  CHECK(done(passes::prune(g)).graph.text() == g.text());
}

TEST_CASE("prune: a parameter that is not trained loses its update, its gradient and its state") {
  const Graph g = trained();
  const passes::Rewritten work = done(passes::prune(g, {.stop_gradient = {"a"}}));
  CHECK(output(work.graph, "a.next") == "none");
  CHECK(output(work.graph, "b.next") == "new_b");
  CHECK(has(work.graph, "a"));
  CHECK_FALSE(has(work.graph, "ma"));
  CHECK(count(g, Op::matmul) == 5);
  CHECK(count(work.graph, Op::matmul) == 3);  // forward, and the gradient of b
  CHECK(told(work, "a", "momentum") == "+ prune: a: momentum 'new_a' left out: stop_gradient\n");
  CHECK(told(work, "a.next", "output") ==
        "+ prune: a.next: output left out: only the update of a stopped parameter makes it\n");
}

TEST_CASE("prune: stop_gradient that cannot be says why") {
  const auto line = [](const char* name) {
    const passes::Rewritten work = done(passes::prune(trained(), {.stop_gradient = {name}}));
    CHECK(work.graph.text() == trained().text());
    return passes::explain(work.notes);
  };
  CHECK(line("los") == "- prune: stop_gradient 'los': no value has this name (did you mean 'loss'?)\n");
  CHECK(line("x") == "- prune: x: stop_gradient 'x': no optimizer node updates it\n");
  CHECK(line("h") ==
        "- prune: h: stop_gradient 'h': it is computed: gradients that went through it are in sums by now; "
        "stop "
        "parameters\n");
}

TEST_CASE("prune: what another rank waits for stays, unless the update it was for is stopped") {
  Graph g;
  const auto x = g.input("x", small);
  g.node(Op::send, {g.named("sent").neg(x)}, {{"comm", 0}, {"peer", 1}});
  g.named("idle").all_reduce(x, {{"comm", 0}, {"reduce", "sum"}});
  const auto w = g.param("w", small);
  const auto reduced = g.named("reduced").all_reduce(g.named("g").exp(w), {{"comm", 0}, {"reduce", "sum"}});
  g.output("w.next", g.named({"new_w", "", "unscaled"}).sgd(w, reduced, g.input("lr", {f32, {}}))[0]);
  g.output("y", g.named("y").relu(x));
  const passes::Rewritten kept = done(passes::prune(g));
  CHECK(has(kept.graph, "sent"));
  CHECK(has(kept.graph, "idle"));
  const passes::Rewritten stopped = done(passes::prune(g, {.stop_gradient = {"w"}}));
  CHECK(has(stopped.graph, "idle"));
  CHECK_FALSE(has(stopped.graph, "reduced"));
}

TEST_CASE("prune: a graph without outputs is not pruned to nothing") {
  Graph g;
  g.named("y").relu(g.input("x", small));
  const passes::Rewritten work = done(passes::prune(g));
  CHECK(work.graph.text() == g.text());
  CHECK(told(work, "").find("no value is marked as an output") != std::string::npos);
}
