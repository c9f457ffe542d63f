// SPDX-License-Identifier: Apache-2.0
// Padding, rule by rule.
#include "rewriting.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

using Ints = Graph::Ints;

Graph product(Ints a, Ints b, Graph::Attributes attributes = {}, DType dtype = bf16) {
  Graph g;
  g.output("y", g.named("y").matmul(g.input("a", {dtype, std::move(a)}), g.param("b", {dtype, std::move(b)}),
                                    std::move(attributes)));
  REQUIRE_MESSAGE(g.check().ok(), g.check().message());
  return g;
}
Ints dims(const passes::Rewritten& work, std::string_view name) { return spec(work.graph, name).dims; }

}  // namespace

TEST_CASE("pad: the inner size and the columns of a matmul grow to multiples, and the result is cut") {
  const passes::Rewritten work = done(passes::pad(product({5, 100}, {100, 30})));
  CHECK(dims(work, "a.padded") == Ints{5, 104});
  CHECK(dims(work, "b.padded") == Ints{104, 32});
  CHECK(dims(work, "y.whole") == Ints{5, 32});
  CHECK(dims(work, "y") == Ints{5, 30});
  CHECK(work.graph.nodes()[maker(work.graph, "y")].op == Op::slice);
  CHECK(told(work, "y") == "+ pad: y: matmul inner size 100 to 104: tensor cores read multiples of 8\n");
  CHECK(told(work, "y", "columns") ==
        "+ pad: y: matmul columns 30 to 32: tensor cores read multiples of 8\n");
}

TEST_CASE("pad: sizes that are multiples already stay, and the graph with them") {
  const Graph g = product({5, 104}, {104, 32});
  CHECK(done(passes::pad(g)).graph.text() == g.text());
}

TEST_CASE("pad: what counts is how operands lie: a transposed one has its rows padded") {
  const passes::Rewritten work = done(passes::pad(product({100, 30}, {100, 16}, {{"transpose_a", 1}})));
  CHECK(dims(work, "a.padded") == Ints{100, 32});
  CHECK_FALSE(has(work.graph, "b.padded"));
  CHECK(dims(work, "y") == Ints{30, 16});
}

TEST_CASE("pad: a result that is padded again is read as it was made") {
  Graph g;
  const auto w = [&](const char* name, Ints shape) { return g.param(name, {bf16, std::move(shape)}); };
  const auto h = g.named("h").matmul(g.input("x", {bf16, {4, 64}}), w("w", {64, 100}));
  g.output("y", g.named("y").matmul(h, w("w2", {100, 64})));
  const passes::Rewritten work = done(passes::pad(g));
  CHECK(reads(work.graph, "y", 0) == "h.whole");
  CHECK_FALSE(has(work.graph, "h.padded"));
}

TEST_CASE("pad: an operand is padded once for all who read it") {
  Graph g;
  const auto x = g.input("x", {bf16, {8, 30}});
  for (const char* name : {"a", "b"}) g.output(name, g.named(name).matmul(x, x, {{"transpose_b", 1}}));
  CHECK(count(done(passes::pad(g)).graph, Op::pad) == 1);
}

TEST_CASE("pad: the channels of a first layer grow from three to four, its filters to eights") {
  Graph g;
  g.output("y", g.named("y").conv2d(g.input("x", {f16, {2, 3, 8, 8}}), g.param("w", {f16, {12, 3, 3, 3}})));
  const passes::Rewritten work = done(passes::pad(g));
  CHECK(dims(work, "x.padded") == Ints{2, 4, 8, 8});
  CHECK(dims(work, "w.padded") == Ints{16, 4, 3, 3});
  CHECK(dims(work, "y") == Ints{2, 12, 6, 6});
}

TEST_CASE("pad: the gradients of a convolution are padded like it") {
  Graph g;
  const auto x = g.input("x", {f16, {2, 12, 4, 4}}), w = g.param("w", {f16, {10, 12, 1, 1}});
  const auto y = g.conv2d(x, w);
  const auto gradients = g.gradients(g.mean(g.mul(y, y), {0, 1, 2, 3}), {x, w});
  REQUIRE(gradients.ok());
  for (size_t i = 0; i < 2; ++i) g.output("d" + std::to_string(i), g.identity((*gradients)[i]));
  const passes::Rewritten work = done(passes::pad(g));
  for (const Graph::Node& node : work.graph.nodes()) {
    if (node.op != Op::conv2d && node.op != Op::conv2d_grad_data && node.op != Op::conv2d_grad_weight)
      continue;
    for (const uint32_t value : node.inputs) CHECK(work.graph.values()[value].spec.dims[1] % 8 == 0);
    CHECK(work.graph.values()[node.outputs[0]].spec.dims[1] % 8 == 0);
  }
  CHECK(count(work.graph, Op::conv2d_grad_weight) == 1);
}

TEST_CASE("pad: groups cannot be padded, and it says so") {
  Graph g;
  g.output("y", g.named("y").conv2d(g.input("x", {f16, {2, 12, 4, 4}}), g.param("w", {f16, {12, 1, 1, 1}}),
                                    {{"groups", 12}}));
  const passes::Rewritten work = done(passes::pad(g));
  CHECK(work.graph.text() == g.text());
  CHECK(told(work, "y") ==
        "- pad: y: conv2d padded: it has 12 groups, and padding would move channels between them\n");
}

TEST_CASE("pad: a size that would grow too much stays") {
  const passes::Rewritten work = done(passes::pad(product({5, 64}, {64, 3})));
  CHECK_FALSE(has(work.graph, "b.padded"));
  CHECK(told(work, "y") == "- pad: y: matmul columns 3 to 8: it would grow by more than 2.0\n");
  CHECK(has(done(passes::pad(product({5, 64}, {64, 3}), {.max_growth = 3})).graph, "b.padded"));
}

TEST_CASE("pad: f32 is padded when asked for only") {
  const Graph g = product({5, 100}, {100, 30}, {}, f32);
  CHECK(told(done(passes::pad(g)), "y") ==
        "- pad: y: matmul padded: it is f32: padding pays for f16 and bf16\n");
  CHECK(has(done(passes::pad(g, {.all_types = true})).graph, "a.padded"));
}

TEST_CASE("pad: empty tensors and options without effect are met calmly") {
  CHECK_FALSE(has(done(passes::pad(product({0, 0}, {0, 0}))).graph, "a.padded"));
  CHECK(told(done(passes::pad(product({5, 7}, {7, 3}), {.multiple = 1})), "") ==
        "- pad: sizes padded: no matmul or convolution has one that is no multiple of 1\n");
}

TEST_CASE("pad: options out of range are refused") {
  const Graph g = product({5, 7}, {7, 3});
  CHECK(passes::pad(g, {.multiple = 0}).message().find("pad: multiple 0") == 0);
  CHECK_FALSE(passes::pad(g, {.multiple = INT64_MAX}).ok());
  CHECK_FALSE(passes::pad(g, {.max_growth = 0.5}).ok());
}
