// SPDX-License-Identifier: Apache-2.0
// Mixed precision, rule by rule.
#include "rewriting.hpp"

#include "passes/amp_lists.hpp"
#include "passes/amp_types.hpp"

#include <limits>

using namespace tenon;
using namespace tenon::test;
using passes::AmpLevel;

namespace {

using Ints = Graph::Ints;

passes::Rewritten o1(const Graph& g, passes::AmpOptions options = {}) {
  return done(passes::amp(g, options));
}
passes::Rewritten o2(const Graph& g, passes::AmpOptions options = {}) {
  options.level = AmpLevel::O2;
  return done(passes::amp(g, options));
}

// fc = x·w + b, relu, fc2, softmax, mean.
Graph network() {
  Graph g("net");
  const auto x = g.input("x", {f32, {4, 8}});
  const auto fc = g.named("fc").matmul(x, g.param("w", {f32, {8, 16}}));
  const auto h = g.named("h").relu(g.named("biased").add(fc, g.param("b", {f32, {16}})));
  const auto scores = g.named("scores").matmul(h, g.param("w2", {f32, {16, 3}}));
  g.output("loss", g.named("mean").mean(g.named("p").softmax(scores), {0, 1}));
  return g;
}

}  // namespace

TEST_CASE("amp O1: white nodes compute in the half type, black ones in f32, and leaves stay f32") {
  const passes::Rewritten work = o1(network());
  CHECK(dtype(work.graph, "fc") == bf16);
  CHECK(dtype(work.graph, "scores") == bf16);
  CHECK(dtype(work.graph, "p") == f32);
  CHECK(dtype(work.graph, "mean") == f32);
  for (const char* leaf : {"x", "w", "b", "w2"}) CHECK(dtype(work.graph, leaf) == f32);
  CHECK(told(work, "fc") == "+ amp: fc: matmul in bf16: matmul is on the white list\n");
  CHECK(told(work, "p") == "- amp: p: softmax in bf16: softmax is on the black list\n");
}

TEST_CASE("amp O1: a grey node follows a half, and takes its other leaves along") {
  const passes::Rewritten work = o1(network());
  CHECK(dtype(work.graph, "biased") == bf16);
  CHECK(reads(work.graph, "biased", 1) == "b.bf16");
  CHECK(dtype(work.graph, "h") == bf16);
  CHECK(told(work, "h") == "+ amp: h: relu in bf16: it follows 'biased', which is bf16\n");
}

TEST_CASE("amp O1: where a half and an f32 meet in a grey node, f32 wins") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 4}});
  const auto y = g.named("y").add(g.named("fc").matmul(x, x), g.named("e").exp(x));
  g.output("y", y);
  const passes::Rewritten work = o1(g);
  CHECK(dtype(work.graph, "y") == f32);
  CHECK(reads(work.graph, "y", 0) == "fc.f32");
  CHECK(told(work, "y") == "- amp: y: add in bf16: it follows 'e', which is f32\n");
}

TEST_CASE("amp O1: grey nodes among leaves stay f32, and their results go along with halves") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 4}});
  const auto shifted = g.named("shifted").neg(g.param("b", {f32, {4}}));
  g.output("y", g.named("y").add(g.matmul(x, x), shifted));
  const passes::Rewritten work = o1(g);
  CHECK(dtype(work.graph, "shifted") == f32);
  CHECK(dtype(work.graph, "y") == bf16);
}

TEST_CASE("amp: a value is cast once for all who read it") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 4}});
  for (const char* name : {"a", "b", "c"}) g.output(name, g.named(name).matmul(x, x));
  CHECK(count(o1(g).graph, Op::cast) == 1 + 3);  // and each output back to f32
}

TEST_CASE("amp: outputs keep their types") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 4}});
  g.output("y", g.named("fc").matmul(x, x));
  const passes::Rewritten work = o1(g);
  CHECK(output(work.graph, "y") == "fc.f32");
  CHECK(dtype(work.graph, "fc.f32") == f32);
}

TEST_CASE("amp: a cast that has become none is left out") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 4}});
  const auto narrow = g.named("narrow").cast(g.named("fc").matmul(x, x), bf16);
  g.output("y", g.named("y").neg(narrow));
  const passes::Rewritten work = o1(g);
  CHECK(reads(work.graph, "y", 0) == "fc");
  CHECK(told(work, "narrow") == "+ amp: narrow: cast left out: 'fc' is the same\n");
}

TEST_CASE("amp: what was widened is read where it was narrow, and what was narrowed is not widened back") {
  Graph g;
  const auto x = g.input("x", {bf16, {4, 4}});
  const auto wide = g.named("wide").cast(x, f32);
  g.output("y", g.named("y").matmul(wide, wide));
  CHECK(reads(o1(g).graph, "y", 0) == "x");

  Graph lossy;
  const auto z = lossy.input("z", {f32, {4, 4}});
  const auto back = lossy.named("back").cast(lossy.named("narrow").cast(z, f16), f32);
  lossy.output("y", lossy.named("y").exp(back));
  CHECK(reads(o1(lossy).graph, "back", 0) == "narrow");
  CHECK(reads(o1(lossy).graph, "y", 0) == "back");
}

TEST_CASE("amp: a constant is made in the type in which it is read") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 4}});
  const auto half = g.named("half").constant(TensorSpec{f32, {}}, 0.5);
  g.output("y", g.named("y").mul(g.matmul(x, x), half));
  const passes::Rewritten work = o1(g);
  CHECK(dtype(work.graph, "half") == bf16);
  CHECK(reads(work.graph, "y", 1) == "half");
}

TEST_CASE("amp: a constant loses nothing for others by being read in the half type") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 4}});
  const auto tenth = g.named("tenth").constant(TensorSpec{f32, {}}, 0.1);
  g.output("y", g.named("y").mul(g.matmul(x, x), tenth));
  g.output("tenth", tenth);
  const passes::Rewritten work = o1(g);
  CHECK(dtype(work.graph, "tenth") == bf16);
  CHECK(output(work.graph, "tenth") == "tenth.f32");
  CHECK(work.graph.nodes()[maker(work.graph, "tenth.f32")].op == Op::constant);

  g.output("wide", g.named("wide").cast(tenth, f64));
  const passes::Rewritten wider = o1(g);
  CHECK(dtype(wider.graph, "tenth") == f32);
  CHECK(reads(wider.graph, "wide", 0) == "tenth");
  CHECK(reads(wider.graph, "y", 1) == "tenth.bf16");
}

TEST_CASE("amp: a constant that the half type cannot hold keeps its node in f32") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 4}});
  const auto fc = g.matmul(x, x);
  g.output("masked", g.named("masked").add(fc, g.named("far").constant(TensorSpec{f32, {}}, -1e9)));
  g.output("safe", g.named("safe").add(fc, g.named("tiny").constant(TensorSpec{f32, {}}, 1e-12)));
  const passes::Rewritten in_f16 = o1(g, {.half = f16});
  CHECK(dtype(in_f16.graph, "masked") == f32);
  CHECK(dtype(in_f16.graph, "safe") == f32);
  CHECK(told(in_f16, "masked") == "- amp: masked: add in f16: it follows 'far', which is f32\n");
  CHECK(dtype(o1(g, {.half = bf16}).graph, "masked") == bf16);  // whose range is that of f32
}

TEST_CASE("amp: which numbers fit a half") {
  CHECK(passes::fits(65504, f16));
  CHECK_FALSE(passes::fits(65536, f16));
  CHECK(passes::fits(65536, bf16));
  CHECK(passes::fits(0x1p-24, f16));
  CHECK_FALSE(passes::fits(0x1p-25, f16));
  CHECK(passes::fits(-std::numeric_limits<double>::infinity(), f16));
  CHECK(passes::fits(0, f16));
}

TEST_CASE("amp: nodes that were never f32 are left as they are") {
  Graph g;
  const auto x = g.input("x", {f64, {4, 4}});
  const auto h = g.input("h", {f16, {4, 4}});
  g.output("wide", g.named("wide").matmul(x, x));
  g.output("narrow", g.named("narrow").softmax(h));
  const passes::Rewritten work = o1(g);
  CHECK(dtype(work.graph, "wide") == f64);
  CHECK(dtype(work.graph, "narrow") == f16);
  CHECK(told(work, "wide") == "- amp: wide: matmul in bf16: it is f64: only f32 becomes a half\n");
}

TEST_CASE("amp: normalisations read and write halves, with f32 parameters and statistics and no casts") {
  Graph g;
  const auto x = g.input("x", {f32, {2, 8, 4, 4}});
  const auto c = g.named("c").conv2d(x, g.param("w", {f32, {8, 8, 1, 1}}));
  const auto channel = [&](const char* name) { return g.param(name, {f32, {8}}); };
  const auto made = g.named({"y", "mean", "inv_std", "new_mean", "new_var"})
                        .batch_norm_train(c, channel("scale"), channel("bias"), channel("rm"), channel("rv"));
  g.output("r", g.named("r").relu(made[0]));
  g.output("new_mean", made[3]);
  for (const passes::Rewritten& work : {o1(g), o2(g)}) {
    CHECK(reads(work.graph, "y", 0) == "c");
    CHECK(dtype(work.graph, "y") == bf16);
    CHECK(dtype(work.graph, "r") == bf16);
    for (const char* name : {"scale", "bias", "rm", "rv", "mean", "new_mean"})
      CHECK(dtype(work.graph, name) == f32);
    CHECK(reads(work.graph, "y", 1) == "scale");
  }
}

TEST_CASE("amp: a name on a custom list counts more than its op, and its op more than amp_lists.def") {
  const passes::Rewritten work = o1(network(), {.white = {"softmax"}, .black = {"matmul"}});
  CHECK(dtype(work.graph, "p") == bf16);
  CHECK(dtype(work.graph, "fc") == f32);
  CHECK(told(work, "fc") == "- amp: fc: matmul in bf16: 'matmul' is on your black list\n");
  const passes::Rewritten named = o1(network(), {.white = {"fc"}, .black = {"matmul"}});
  CHECK(dtype(named.graph, "fc") == bf16);
  CHECK(dtype(named.graph, "scores") == f32);
}

TEST_CASE("amp: a custom entry that speaks for nothing is told, with what it may have meant") {
  const passes::Rewritten work = o1(network(), {.white = {"sofmax"}, .black = {"w"}});
  CHECK(told(work, "", "sofmax") ==
        "- amp: white list 'sofmax': no op or value of this graph has this name (did you mean 'softmax'?)\n");
  CHECK(told(work, "", "'w'") == "- amp: black list 'w': it speaks for no node of f32\n");
}

TEST_CASE("amp: mistakes in options are refused") {
  CHECK(passes::amp(network(), {.half = f32}).message() == "amp: half is f32, it must be f16 or bf16");
  CHECK(passes::amp(network(), {.white = {"fc"}, .black = {"fc"}}).message() ==
        "amp: 'fc' is on both custom lists: choose one");
}

TEST_CASE("amp O2: parameters are of the half type and activations halves from the start") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 8}});
  const auto e = g.named("e").exp(x);
  g.output("y", g.named("y").matmul(e, g.param("w", {f32, {8, 16}})));
  const passes::Rewritten work = o2(g);
  CHECK(dtype(work.graph, "x") == f32);
  CHECK(dtype(work.graph, "e") == bf16);
  CHECK(dtype(work.graph, "w") == bf16);
  CHECK(reads(work.graph, "y", 1) == "w");
  CHECK(told(work, "w") == "+ amp: w: parameter in bf16: O2 keeps parameters as they are read\n");
}

TEST_CASE("amp O2: from softmax on the loss is f32") {
  const passes::Rewritten work = o2(network());
  CHECK(dtype(work.graph, "scores") == bf16);
  CHECK(dtype(work.graph, "p") == f32);
  CHECK(dtype(work.graph, "mean") == f32);
  CHECK(told(work, "mean") == "- amp: mean: mean in bf16: it follows 'p', which is f32\n");
}

TEST_CASE("amp O2: rates and counters stay f32") {
  Graph g;
  const auto rate = g.input("rate", {f32, {}});
  g.output("next", g.named("next").scale(g.named("product").mul(rate, rate), 0.5));
  CHECK(dtype(o2(g).graph, "product") == f32);
  CHECK(dtype(o2(g).graph, "next") == f32);
}

TEST_CASE(
    "amp O2: an optimizer gets a master of a parameter that became a half, and the new one is an output") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 8}});
  const auto w = g.param("w", {f32, {8, 16}});
  const auto loss = g.mean(g.matmul(x, w), {0, 1});
  const auto gradients = g.gradients(loss, {w});
  REQUIRE(gradients.ok());
  const auto [next, velocity, master] =
      g.named({"next", "velocity", ""})
          .momentum(w, (*gradients)[0], g.param("v", {f32, {8, 16}}), g.input("lr", {f32, {}}));
  g.output("w.next", next);
  g.output("v.next", velocity);
  const passes::Rewritten work = o2(g);
  CHECK(dtype(work.graph, "w") == bf16);
  CHECK(dtype(work.graph, "next") == bf16);
  CHECK(dtype(work.graph, "v") == f32);
  CHECK(dtype(work.graph, "w.master") == f32);
  CHECK(reads(work.graph, "next", 4) == "w.master");
  REQUIRE(work.masters.size() == 1);
  CHECK(work.masters[0].param == "w");
  CHECK(work.masters[0].master == "w.master");
  CHECK(work.masters[0].output == "w.next.master");
  CHECK(output(work.graph, work.masters[0].output) == "w.master.new");
  CHECK(dtype(work.graph, output(work.graph, "w.next")) == bf16);
  CHECK(o1(g).masters.empty());
}

TEST_CASE("amp O2: a master that is there already is kept") {
  Graph g;
  const auto x = g.input("x", {f32, {8, 8}});
  const auto w = g.param("w", {f32, {8, 8}});
  g.output("y", g.matmul(x, w));
  const auto [next, master, gradient] =
      g.named({"next", "kept", ""})
          .sgd(w, x, g.input("lr", {f32, {}}), g.param("own", {f32, {8, 8}}), {}, {});
  g.output("next", next);
  g.output("kept", master);
  const passes::Rewritten work = o2(g);
  CHECK(reads(work.graph, "next", 3) == "own");
  CHECK(work.masters.empty());
}

TEST_CASE("amp O1: an optimizer updates f32 with a gradient that is cast back") {
  Graph g;
  const auto x = g.input("x", {f32, {8, 8}});
  const auto w = g.param("w", {f32, {8, 8}});
  g.output("next",
           g.named({"next", "", "g"}).sgd(w, g.named("dw").matmul(x, x), g.input("lr", {f32, {}}))[0]);
  const passes::Rewritten work = o1(g);
  CHECK(reads(work.graph, "next", 0) == "w");
  CHECK(reads(work.graph, "next", 1) == "dw.f32");
}

TEST_CASE("amp: f16 with an optimizer and no loss scaling is told, bf16 needs none") {
  Graph g;
  const auto w = g.param("w", {f32, {8}});
  g.output("next", g.sgd(w, g.neg(w), g.input("lr", {f32, {}}))[0]);
  CHECK(told(o1(g, {.half = f16}), "").find("- amp: loss scaling: the graph has none") == 0);
  CHECK(told(o1(g, {.half = bf16}), "") == "nothing");
}

TEST_CASE("amp: gradients are unscaled in f32") {
  Graph g;
  const auto x = g.input("x", {f32, {8, 8}});
  const auto scale = g.param("scale", {f32, {}});
  const auto out =
      g.named({"found", "unscaled"}).check_finite_and_unscale({scale, g.named("dw").matmul(x, x)});
  g.output("found", out[0]);
  g.output("unscaled", out[1]);
  for (const AmpLevel level : {AmpLevel::O1, AmpLevel::O2})
    CHECK(reads(done(passes::amp(g, {.level = level})).graph, "unscaled", 1) == "dw.f32");
}

TEST_CASE("amp: gradients go back through the casts, and are of their parameters' types") {
  for (const AmpLevel level : {AmpLevel::O1, AmpLevel::O2}) {
    const Graph g = network();
    passes::Rewritten work = done(passes::amp(g, {.level = level}));
    const auto w = work.values[index_of(g, "w")], loss = work.values[index_of(g, "mean")];
    const auto gradients = work.graph.gradients(loss, {w});
    REQUIRE_MESSAGE(gradients.ok(), gradients.message());
    CHECK(work.graph.spec((*gradients)[0]).dtype == (level == AmpLevel::O1 ? f32 : bf16));
  }
}

TEST_CASE("amp: names that are taken get a number") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 4}});
  g.output("y", g.named("y").matmul(x, g.input("x.bf16", {f32, {4, 4}})));
  const passes::Rewritten work = o1(g);
  CHECK(reads(work.graph, "y", 0) == "x.bf16.2");
  CHECK(reads(work.graph, "y", 1) == "x.bf16.bf16");
}
