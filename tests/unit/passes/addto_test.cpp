// SPDX-License-Identifier: Apache-2.0
// Accumulation of gradients, rule by rule.
#include "rewriting.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

// w is read by `terms` matmuls, so its gradient is a sum of that many products: s2, s3 …
Graph joined(int terms) {
  Graph g;
  const auto dy = g.input("dy", {f32, {4, 8}});
  Graph::Value sum{};
  for (int i = 1; i <= terms; ++i) {
    const std::string number = std::to_string(i);
    const auto product = g.named("p" + number).matmul(g.input("x" + number, {f32, {4, 4}}), dy);
    sum = i == 1 ? product : g.named("s" + number).add(sum, product);
  }
  g.output("dw", g.named("scaled").scale(sum, 0.5));
  REQUIRE_MESSAGE(g.check().ok(), g.check().message());
  return g;
}

}  // namespace

TEST_CASE("addto: a sum of products accumulates in the memory of its first term") {
  const passes::Rewritten work = done(passes::addto(joined(4)));
  CHECK(writes_over(work, "s2", "p1"));
  CHECK(writes_over(work, "s3", "s2"));
  CHECK(writes_over(work, "s4", "s3"));
  CHECK(work.aliases.size() == 3);
  CHECK(told(work, "s3") == "+ addto: s3: accumulates into 's2': a sum of 4 terms\n");
}

TEST_CASE("addto: nodes and their order stay") {
  const Graph g = joined(4);
  CHECK(done(passes::addto(g)).graph.text() == g.text());
}

TEST_CASE("addto: a sum of more terms than max_inplace_grad_add is left alone, and it says so") {
  const passes::Rewritten work = done(passes::addto(joined(4), {.max_inplace_grad_add = 3}));
  CHECK(work.aliases.empty());
  CHECK(told(work, "s4") ==
        "- addto: s4: accumulates in one buffer: it is a sum of 4 terms and max_inplace_grad_add 3\n");
  CHECK(done(passes::addto(joined(3), {.max_inplace_grad_add = 3})).aliases.size() == 2);
  CHECK(done(passes::addto(joined(2), {.max_inplace_grad_add = 0})).aliases.empty());
}

TEST_CASE("addto: gradients of a parameter that is used twice accumulate") {
  Graph g;
  const auto w = g.param("w", {f32, {4, 4}}), x = g.input("x", {f32, {4, 4}});
  const auto y = g.matmul(g.tanh(g.matmul(x, w)), w);
  const auto gradients = g.gradients(g.mean(y, {0, 1}), {w});
  REQUIRE(gradients.ok());
  g.output("dw", (*gradients)[0]);
  const passes::Rewritten work = done(passes::addto(g));
  REQUIRE(work.aliases.size() == 1);
  CHECK(work.graph.nodes()[work.aliases[0].node].op == Op::add);
}

TEST_CASE("addto: a term that others still need is not overwritten, the other one may be") {
  Graph g = joined(2);
  g.output("norm", g.named("norm").square(g.value(index_of(g, "p1"))));
  CHECK(writes_over(done(passes::addto(g)), "s2", "p2"));
}

TEST_CASE("addto: products that are outputs themselves cannot be added where they are made") {
  Graph g = joined(2);
  for (const char* name : {"p1", "p2"}) g.output(name, g.value(index_of(g, name)));
  CHECK(done(passes::addto(g)).aliases.empty());
}

TEST_CASE("addto: a sum may begin in its second term where the first has to last") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 4}});
  g.output("y", g.named("y").add(x, g.named("p").matmul(x, x)));
  CHECK(writes_over(done(passes::addto(g)), "y", "p"));
}

TEST_CASE("addto: sums without a product and sums that are broadcast are none of its business") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 4}});
  g.output("plain", g.add(g.add(g.exp(x), g.sin(x)), g.cos(x)));
  g.output("wide", g.add(g.matmul(x, x), g.param("b", {f32, {4}})));
  const passes::Rewritten work = done(passes::addto(g));
  CHECK(work.aliases.empty());
  CHECK(told(work, "") ==
        "- addto: max_inplace_grad_add 8: no sum has a product or convolution among its terms\n");
}

TEST_CASE("addto: a limit below zero is a mistake") {
  CHECK(passes::addto(joined(2), {.max_inplace_grad_add = -1}).message() ==
        "addto: max_inplace_grad_add -1: give 0, which turns it off, or more");
}
