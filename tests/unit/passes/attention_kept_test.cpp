// SPDX-License-Identifier: Apache-2.0
// Products with a softmax between that are nearly attention, in the text form: each stays as it was written, with its reason.
#include "rewriting.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

// q, k, v and dy of 2 heads, 4 rows, 4 columns, and what follows.
Graph written(const std::string& nodes) {
  const auto graph = Graph::parse(
      "tenon-graph 1 kept\n"
      "input %q: f32[1,2,4,4]\ninput %k: f32[1,2,4,4]\ninput %v: f32[1,2,4,4]\ninput %dy: f32[1,2,4,4]\n"
      "%s: f32[1,2,4,4] = matmul(%q, %k) {transpose_b=1}\n" +
      nodes + "end\n");
  REQUIRE_MESSAGE(graph.ok(), graph.message());
  return *graph;
}

void stays(const std::string& nodes, const std::string& why) {
  const Graph graph = written(nodes);
  CAPTURE(graph.text());
  const passes::Rewritten work = done(passes::attention(graph));
  CHECK(work.graph.text() == graph.text());
  const std::string line = told(work, "y");
  CHECK(line.starts_with("- attention: y: "));
  CHECK_MESSAGE(line.find(why) != std::string::npos, line);
}

const std::string softmax = "%p: f32[1,2,4,4] = softmax(%s)\n";
const std::string product = "%y: f32[1,2,4,4] = matmul(%p, %v)\noutput y = %y\n";
const std::string dv = "%dv: f32[1,2,4,4] = matmul(%p, %dy) {transpose_a=1}\n";

}  // namespace

TEST_CASE("attention kept: a way back that begins before the product is made") {
  stays(softmax + dv + product + "output dv = %dv\n", "its way back begins before 'y' is made");
}

TEST_CASE("attention kept: a way back whose gradient is of another kind") {
  stays(softmax + product +
            "input %u: f32[1,2,4,3]\n%z: f32[1,2,4,3] = matmul(%p, %u) {transpose_a=1}\noutput z = %z\n",
        "'u' is of another kind than 'y', whose gradient it would be");
}

TEST_CASE("attention kept: a way back along another axis, or with another number") {
  const std::string dshares = "%dp: f32[1,2,4,4] = matmul(%dy, %v) {transpose_b=1}\n";
  stays(softmax + product + dv + dshares +
            "%ds: f32[1,2,4,4] = softmax_grad(%dp, %p) {axis=2}\n%dq: f32[1,2,4,4] = matmul(%ds, %k)\n"
            "output dq = %dq\noutput dv = %dv\n",
        "'p' is read by softmax_grad 'ds', too");
  stays(softmax + product + dv + dshares +
            "%ds: f32[1,2,4,4] = softmax_grad(%dp, %p)\n%half: f32[1,2,4,4] = scale(%ds) {scale=0.5}\n"
            "%dq: f32[1,2,4,4] = matmul(%half, %k)\noutput dq = %dq\noutput dv = %dv\n",
        "the way back multiplies by another number than the way forward");
}

TEST_CASE("attention kept: what it would read is one of the values that go") {
  stays("%twice: f32[1,2,4,4] = add(%s, %s)\n%p: f32[1,2,4,4] = softmax(%twice)\n" + product,
        "'s' is one of the values between");
  stays(softmax + "%y: f32[1,2,4,4] = matmul(%p, %p)\noutput y = %y\n", "'p' is one of the values between");
}

TEST_CASE("attention kept: of two that share a product the first is taken") {
  const Graph graph = written(softmax +
                              "%h: f32[1,2,4,4] = matmul(%p, %v)\n%r: f32[1,2,4,4] = softmax(%h)\n"
                              "%y: f32[1,2,4,4] = matmul(%r, %dy)\noutput y = %y\n");
  const passes::Rewritten work = done(passes::attention(graph));
  CHECK(count(work.graph, Op::attention) == 1);
  CHECK(count(work.graph, Op::softmax) == 1);
  CHECK(told(work, "y").find("it is part of another attention") != std::string::npos);
}

TEST_CASE("attention kept: shares and scores that are rounded on the way") {
  stays(softmax +
            "%w: i32[1,2,4,4] = cast(%p) {dtype=i32}\n%f: f32[1,2,4,4] = cast(%w) {dtype=f32}\n"
            "%y: f32[1,2,4,4] = matmul(%f, %v)\noutput y = %y\n",
        "'w' is rounded to i32");
  stays(
      "%h: bf16[1,2,4,4] = cast(%s) {dtype=bf16}\n%f: f32[1,2,4,4] = cast(%h) {dtype=f32}\n"
      "%p: f32[1,2,4,4] = softmax(%f)\n" +
          product,
      "'h' is rounded to bf16");
}

TEST_CASE("attention kept: what does not hide") {
  const auto hidden = [](const std::string& instead, const std::string& after) {
    return "input %seen: bool[4,4]\n%c: f32[] = constant() {dtype=f32, shape=[], value=" + instead +
           "}\n%m: f32[1,2,4,4] = where(%seen, %s, %c)\n" + after;
  };
  const std::string direct = "%p: f32[1,2,4,4] = softmax(%m)\n" + product;
  stays(hidden("nan", direct), "where 'm' does not hide scores by -1e9 or less");
  stays(hidden("-1e+09",
               "%t: f32[1,2,4,4] = scale(%m) {scale=1e-08}\n%p: f32[1,2,4,4] = softmax(%t)\n" + product),
        "where 'm' does not hide scores by -1e9 or less");
  CHECK(count(done(passes::attention(written(hidden("-1e+09", direct)))).graph, Op::attention) == 1);
}

TEST_CASE("attention kept: scales that are no number above 0") {
  for (const char* scale : {"-0.5", "0.0", "inf"}) {
    CAPTURE(scale);
    stays("%t: f32[1,2,4,4] = scale(%s) {scale=" + std::string(scale) +
              "}\n%p: f32[1,2,4,4] = softmax(%t)\n" + product,
          "scores are not multiplied by a number above 0");
  }
}

TEST_CASE("attention: a number that a half holds otherwise is the one that it holds") {
  const auto graph = Graph::parse(
      "tenon-graph 1 half\ninput %q: bf16[1,2,4,4]\ninput %k: bf16[1,2,4,4]\ninput %v: bf16[1,2,4,4]\n"
      "%s: bf16[1,2,4,4] = matmul(%q, %k) {transpose_b=1}\n%c: bf16[] = constant() {dtype=bf16, shape=[], "
      "value=0.1}\n"
      "%t: bf16[1,2,4,4] = mul(%s, %c)\n%p: bf16[1,2,4,4] = softmax(%t)\n%y: bf16[1,2,4,4] = matmul(%p, %v)\n"
      "output y = %y\nend\n");
  REQUIRE_MESSAGE(graph.ok(), graph.message());
  const Graph g = done(passes::attention(*graph)).graph;
  REQUIRE(count(g, Op::attention) == 1);
  const Graph::Node& node = g.nodes()[maker(g, "y")];
  CHECK(std::get<double>(node.attributes[1].value) == 0.10009765625);
}
