// SPDX-License-Identifier: Apache-2.0
// Results over inputs, rule by rule.
#include "rewriting.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

const TensorSpec small{f32, {4}};

// The line about the node that makes "y".
std::string about_y(const Graph& g, passes::InPlaceOptions options = {}) {
  REQUIRE_MESSAGE(g.check().ok(), g.check().message());
  return told(done(passes::in_place(g, options)), "y");
}

}  // namespace

TEST_CASE("in_place: an elementwise result is written over an input that is read for the last time") {
  Graph g;
  const auto e = g.named("e").exp(g.input("x", small));
  g.output("y", g.named("y").relu(e));
  CHECK(about_y(g) == "+ in_place: y: relu over 'e': it is read for the last time\n");
}

TEST_CASE("in_place: inputs, constants and outputs are not overwritten") {
  Graph g;
  g.output("y", g.named("y").relu(g.input("x", small)));
  CHECK(about_y(g) == "- in_place: y: relu over 'x': 'x' is an input, which belongs to the caller\n");
  Graph constant;
  const float numbers[4] = {1, 2, 3, 4};
  constant.output("y",
                  constant.named("y").neg(constant.constant("c", small, std::as_bytes(std::span(numbers)))));
  CHECK(about_y(constant) == "- in_place: y: neg over 'c': 'c' is a constant\n");
  Graph kept;
  const auto e = kept.named("e").exp(kept.input("x", small));
  kept.output("e", e);
  kept.output("y", kept.named("y").relu(e));
  CHECK(about_y(kept) == "- in_place: y: relu over 'e': 'e' is an output, which has to last\n");
}

TEST_CASE(
    "in_place: a reader that comes before by chance makes it a matter of order, one that must come before "
    "does not") {
  Graph chance;
  const auto e = chance.named("e").exp(chance.input("x", small));
  chance.output("s", chance.named("s").sin(e));
  chance.output("y", chance.named("y").relu(e));
  CHECK(about_y(chance) == "+ in_place: y: relu over 'e': if 's', which reads it too, comes before\n");
  const passes::Rewritten either = done(passes::in_place(chance));  // whichever comes last
  CHECK(either.aliases == std::vector<passes::Alias>{{0 + maker(chance, "s"), 0, 0, true},
                                                     {0 + maker(chance, "y"), 0, 0, true}});
  Graph need;
  const auto f = need.named("f").exp(need.input("x", small));
  need.output("y", need.named("y").mul(f, need.named("s").sin(f)));
  CHECK(about_y(need) == "+ in_place: y: mul over 'f': it is read for the last time\n");
}

TEST_CASE("in_place: another shape or type, or an input that is broadcast, is not the same memory") {
  Graph g;
  const auto e = g.named("e").exp(g.input("x", small));
  g.output("y", g.named("y").add(e, g.input("wide", {f32, {3, 4}})));
  CHECK(about_y(g).find("'e' has another type or shape, or lies otherwise") != std::string::npos);
  Graph cast;
  cast.output("y", cast.named("y").cast(cast.exp(cast.input("x", small)), i32));
  CHECK(about_y(cast).find("another type") != std::string::npos);
}

TEST_CASE("in_place: the second operand will do where the first has to last") {
  Graph g;
  const auto x = g.input("x", small);
  g.output("y", g.named("y").sub(x, g.named("e").exp(x)));
  CHECK(about_y(g) == "+ in_place: y: sub over 'e': it is read for the last time\n");
}

TEST_CASE("in_place: what may be in every order goes before what may be in some") {
  Graph g;
  const auto e = g.named("e").exp(g.input("x", small)), f = g.named("f").exp(e);
  g.output("s", g.named("s").sin(e));
  g.output("y", g.named("y").sub(e, f));
  CHECK(about_y(g) == "+ in_place: y: sub over 'f': it is read for the last time\n");
  CHECK(told(done(passes::in_place(g)), "f") ==
        "+ in_place: f: exp over 'e': if 's', which reads it too, comes before\n");
}

TEST_CASE("in_place: a reshape shares memory, a transpose and a product do not") {
  Graph g;
  const auto e = g.exp(g.input("x", {f32, {2, 2}}));
  g.output("flat", g.named("flat").reshape(g.named("p").matmul(g.named("t").transpose(e, {1, 0}), e), {4}));
  const passes::Rewritten work = done(passes::in_place(g));
  CHECK(writes_over(work, "flat", "p"));
  CHECK(told(work, "p") == "nothing");
  CHECK(told(work, "t") == "nothing");
}

TEST_CASE(
    "in_place: an optimizer writes parameter and states over the old ones, once all else has read them") {
  Graph g;
  const auto w = g.param("w", small), v = g.param("v", small), lr = g.input("lr", {f32, {}});
  const auto made = g.named({"new_w", "new_v", ""}).momentum(w, g.named("g").exp(w), v, lr);
  g.output("w.next", made[0]);
  g.output("v.next", made[1]);
  const passes::Rewritten work = done(passes::in_place(g));
  CHECK(writes_over(work, "new_w", "w"));
  CHECK(writes_over(work, "new_v", "v"));
  const passes::Rewritten not_these = done(passes::in_place(g, {.params = false}));
  CHECK(not_these.aliases.empty());
  CHECK(told(not_these, "new_w") ==
        "- in_place: new_w: momentum over 'w': 'w' is a parameter, and params is off\n");
}

TEST_CASE("in_place: a parameter that a gradient needs too is renewed in place where that comes before") {
  Graph g;
  const auto w = g.param("w", {f32, {4, 4}}), dy = g.named("dy").exp(g.input("x", {f32, {4, 4}}));
  g.output("dx", g.named("dx").matmul(dy, w, {{"transpose_b", int64_t{1}}}));
  g.output("w.new", g.named({"w.next", "", ""}).sgd(w, g.named("dw").neg(dy), g.input("rate", {f32, {}}))[0]);
  const passes::Rewritten work = done(passes::in_place(g));
  CHECK(told(work, "w.next") ==
        "+ in_place: w.next: sgd over 'w': if 'dx', which reads it too, comes before\n");
  CHECK(writes_over(work, "w.next", "w"));
}

TEST_CASE("in_place: a parameter is overwritten by its update alone, and only where the new one goes out") {
  Graph g;
  const auto w = g.param("w", small);
  g.output("y", g.named("y").neg(w));
  CHECK(about_y(g) == "- in_place: y: neg over 'w': 'w' is a parameter, and this is not its update\n");
  Graph lost;
  const auto p = lost.param("p", small);
  const auto made = lost.named({"y", "", ""}).sgd(p, p, lost.input("lr", {f32, {}}));
  lost.output("z", lost.neg(made[0]));
  CHECK(about_y(lost) == "- in_place: y: sgd over 'p': the new 'p' is no output, so the old one stays\n");
}

TEST_CASE("in_place: one input holds one output") {
  Graph g;
  const auto e = g.named("e").exp(g.input("x", small));
  const auto made = g.named({"new_w", "", "new_g"}).sgd(e, e, g.input("lr", {f32, {}}));
  g.output("w", made[0]);
  g.output("g", made[2]);
  const passes::Rewritten work = done(passes::in_place(g));
  CHECK(work.aliases == std::vector<passes::Alias>{{0 + maker(work.graph, "new_w"), 0, 0}});
  CHECK(told(work, "new_g").find("'e' is overwritten by another output already") != std::string::npos);
}

TEST_CASE("in_place: what addto gave stays, and values that lie otherwise are other memory") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 4}});
  g.output("y", g.named("y").add(g.named("p").matmul(x, x), g.named("q").matmul(x, x)));
  const passes::Rewritten both = done(passes::in_place(done(passes::addto(g))));
  CHECK(both.aliases.size() == 1);

  Graph image;
  const auto c = image.conv2d(image.input("i", {f32, {1, 2, 3, 3}}), image.param("w", {f32, {2, 2, 1, 1}}));
  image.output("y", image.named("y").relu(image.named("r").tanh(c)));
  const passes::Rewritten placed = done(passes::in_place(done(passes::layout(image))));
  CHECK(writes_over(placed, "y", "r"));
  CHECK_FALSE(placed.placements.empty());
}
