// SPDX-License-Identifier: Apache-2.0
// A device's patterns: found wherever they are, the best first, and refused with the predicate that fails.
#include "fusion/match.hpp"
#include "unit/fusion/graphs.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr uint32_t in(uint32_t n) { return FusionPattern::free_input + n; }

// matmul, an optional bias, an activation.
FusionPattern gemm_epilogue(bool may_show_product = false) {
  return {.name = "gemm_epilogue",
          .steps = {{.ops = {Op::matmul}, .operands = {in(0), in(1)}, .output = may_show_product},
                    {.ops = {Op::add}, .operands = {0, in(2)}, .optional = true},
                    {.ops = {Op::relu, Op::gelu}, .operands = {1}}}};
}

FusionTarget with(std::vector<FusionPattern> patterns) {
  FusionTarget target = willing();
  target.patterns = std::move(patterns);
  return target;
}

struct Layer {
  Graph g;
  Graph::Value x = g.input("x", {f32, {64, 64}}), w = g.param("w", {f32, {64, 64}}),
               b = g.param("b", {f32, {64}});
};

}  // namespace

TEST_CASE("pattern: a product with bias and activation is one group") {
  Layer l;
  l.g.output("out", l.g.named("y").gelu(l.g.named("s").add(l.g.named("p").matmul(l.x, l.w), l.b)));
  const FusionCut cut = must(fuse(l.g, with({gemm_epilogue()})));
  check_cut(l.g, cut);
  CHECK(fused(l.g, cut, {"p", "s", "y"}));
  CHECK(cut.groups.front().rule == "gemm_epilogue");
}

TEST_CASE("pattern: the operands of a sum may stand the other way round, an optional step may be missing") {
  Layer l;
  l.g.output("turned", l.g.named("ya").relu(l.g.named("sa").add(l.b, l.g.named("pa").matmul(l.x, l.w))));
  l.g.output("bare", l.g.named("yb").relu(l.g.named("pb").matmul(l.w, l.x)));
  const FusionCut cut = must(fuse(l.g, with({gemm_epilogue()})));
  check_cut(l.g, cut);
  CHECK(fused(l.g, cut, {"pa", "sa", "ya"}));
  CHECK(fused(l.g, cut, {"pb", "yb"}));
}

TEST_CASE("pattern: operands of what does not commute keep their places") {
  Layer l;
  FusionPattern pattern{.name = "minus",
                        .steps = {{.ops = {Op::matmul}, .operands = {in(0), in(1)}},
                                  {.ops = {Op::sub}, .operands = {0, in(2)}}}};
  l.g.output("right", l.g.named("r").sub(l.g.named("p").matmul(l.x, l.w), l.b));
  l.g.output("wrong", l.g.named("v").sub(l.b, l.g.named("q").matmul(l.w, l.x)));
  const FusionCut cut = must(fuse(l.g, with({pattern})));
  CHECK(fused(l.g, cut, {"p", "r"}));
  CHECK(fused(l.g, cut, {"q"}));
}

TEST_CASE("pattern: a free input that comes twice is one value") {
  Layer l;
  FusionPattern pattern{.name = "twice",
                        .steps = {{.ops = {Op::matmul}, .operands = {in(0), in(1)}},
                                  {.ops = {Op::add}, .operands = {0, in(0)}}}};
  l.g.output("yes", l.g.named("a").add(l.g.named("p").matmul(l.x, l.w), l.x));
  l.g.output("no", l.g.named("c").add(l.g.named("q").matmul(l.x, l.w), l.w));
  const FusionCut cut = must(fuse(l.g, with({pattern})));
  CHECK(fused(l.g, cut, {"p", "a"}));
  CHECK(fused(l.g, cut, {"q"}));
}

TEST_CASE("pattern: a value that others need keeps the pattern away, unless it may be shown") {
  Layer l;
  const auto p = l.g.named("p").matmul(l.x, l.w);
  l.g.output("out", l.g.named("y").relu(p));
  l.g.output("product", p);
  const FusionCut refused = must(fuse(l.g, with({gemm_epilogue()})));
  CHECK(fused(l.g, refused, {"p"}));
  CHECK(reasons(refused).find("gemm_epilogue: the pattern keeps 'p' inside, and others need it") !=
        std::string::npos);
  const FusionCut shown = must(fuse(l.g, with({gemm_epilogue(true)})));
  CHECK(fused(l.g, shown, {"p", "y"}));
}

TEST_CASE("pattern: the device's refusal is told with its reason") {
  Layer l;
  l.g.output("out", l.g.named("y").relu(l.g.named("p").matmul(l.x, l.w)));
  FusionTarget target = picky([](const tn_fragment& f) {
    return f.node_count > 1 ? std::string("N = 64 is not a multiple of 128") : std::string();
  });
  target.patterns = {gemm_epilogue()};
  const FusionCut cut = must(fuse(l.g, target));
  CHECK(cut.groups.size() == 2);
  CHECK(reasons(cut).find("gemm_epilogue: test:0: N = 64 is not a multiple of 128") != std::string::npos);
}

TEST_CASE("pattern: nodes that several variants find are one candidate, refused once") {
  Layer l;
  l.g.output("out", l.g.named("y").relu(l.g.named("s").add(l.g.named("p").matmul(l.x, l.w), l.b)));
  FusionTarget target = picky([](const tn_fragment& f) {
    return f.node_count > 1 ? std::string("f64 is not fused") : std::string();
  });
  target.patterns = {{.name = "gemm_epilogue",
                      .steps = {{.ops = {Op::matmul}, .operands = {in(0), in(1)}},
                                {.ops = {Op::add}, .operands = {0, in(2)}, .optional = true},
                                {.ops = {Op::add}, .operands = {1, in(3)}, .optional = true},
                                {.ops = {Op::relu}, .operands = {2}, .optional = true}}}};
  FusionOptions options;
  options.elementwise = false;
  const FusionCut cut = must(fuse(l.g, target, options));
  REQUIRE_MESSAGE(cut.refusals.size() == 2, reasons(cut));
  CHECK(cut.refusals[0].nodes == Indexes{0, 1});
  CHECK(cut.refusals[1].nodes == Indexes{0, 1, 2});
}

TEST_CASE("pattern: nodes that one variant may not take and another takes are fused, and not refused") {
  Layer l;
  const auto sum = l.g.named("s").add(l.g.named("p").matmul(l.x, l.w), l.b);
  l.g.output("out", l.g.named("y").softmax(sum));
  l.g.output("sum", sum);
  FusionPattern pattern{
      .name = "shown",
      .steps = {{.ops = {Op::matmul}, .operands = {in(0), in(1)}},
                {.ops = {Op::add}, .operands = {0, in(2)}, .optional = true, .output = true},
                {.ops = {Op::add}, .operands = {1, in(3)}, .optional = true},
                {.ops = {Op::softmax}, .operands = {2}}}};
  const FusionCut cut = must(fuse(l.g, with({pattern})));
  CHECK(fused(l.g, cut, {"p", "s", "y"}));
  CHECK_MESSAGE(reasons(cut).empty(), reasons(cut));
}

TEST_CASE("pattern: of two that want a node the one that gains more has it, the other says so") {
  Layer l;
  const auto p = l.g.named("p").matmul(l.x, l.w), s = l.g.named("s").add(p, l.b);
  l.g.output("out", l.g.named("u").exp(l.g.named("t").softmax(s)));
  FusionPattern small{
      .name = "add_softmax",
      .steps = {{.ops = {Op::add}, .operands = {in(0), in(1)}}, {.ops = {Op::softmax}, .operands = {0}}}};
  FusionPattern all{.name = "everything",
                    .steps = {{.ops = {Op::matmul}, .operands = {in(0), in(1)}},
                              {.ops = {Op::add}, .operands = {0, in(2)}},
                              {.ops = {Op::softmax}, .operands = {1}}}};
  FusionPattern behind{
      .name = "softmax_exp",
      .steps = {{.ops = {Op::softmax}, .operands = {in(0)}}, {.ops = {Op::exp}, .operands = {0}}}};
  const FusionCut cut = must(fuse(l.g, with({small, all, behind})));
  CHECK(fused(l.g, cut, {"p", "s", "t"}));
  CHECK(reasons(cut).find("softmax_exp: softmax 't' is in 'everything' already, with matmul 'p' + add 's'") !=
        std::string::npos);
  CHECK_MESSAGE(reasons(cut).find("add_softmax") == std::string::npos, "it is fused, in something larger");
}

TEST_CASE("pattern: steps that fan out from one value are found through who uses it") {
  Graph g;
  const auto dy = g.input("dy", {f32, {64, 64}}), y = g.input("y", {f32, {64, 64}}),
             w = g.param("w", {f32, {64, 64}});
  const auto d = g.named("d").relu_grad(dy, y);
  g.output("dx", g.named("dx").matmul(d, w));
  g.output("db", g.named("db").sum(d, {0}));
  FusionPattern pattern{.name = "gemm_backward",
                        .steps = {{.ops = {Op::relu_grad}, .operands = {in(0), in(1)}},
                                  {.ops = {Op::matmul}, .operands = {0, in(2)}, .output = true},
                                  {.ops = {Op::sum}, .operands = {0}}}};
  const FusionCut cut = must(fuse(g, with({pattern})));
  CHECK(fused(g, cut, {"d", "dx", "db"}));
}

TEST_CASE("pattern: one that cannot be matched is an error that names it") {
  Layer l;
  l.g.output("out", l.g.relu(l.x));
  const auto says = [&](FusionPattern pattern, const char* words) {
    const auto cut = fuse(l.g, with({std::move(pattern)}));
    REQUIRE_FALSE(cut.ok());
    CHECK_MESSAGE(std::string(cut.message()).find(words) != std::string::npos, cut.message());
  };
  says({.name = "empty", .steps = {}}, "pattern 'empty': has no steps");
  says(
      {.name = "ahead", .steps = {{.ops = {Op::add}, .operands = {1}}, {.ops = {Op::relu}, .operands = {0}}}},
      "pattern 'ahead': step 0 reads step 1, which does not stand before it");
  says({.name = "islands",
        .steps = {{.ops = {Op::relu}, .operands = {in(0)}}, {.ops = {Op::relu}, .operands = {in(1)}}}},
       "pattern 'islands': has steps that touch no other step");
  says({.name = "nameless", .steps = {{.operands = {in(0)}}}}, "step 0 names no op");
}
