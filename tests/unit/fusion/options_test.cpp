// SPDX-License-Identifier: Apache-2.0
// must_fuse, never_fuse, off, and what is not a name.
#include "unit/fusion/graphs.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

struct Chain {
  Graph g;
  Chain() {
    const auto x = g.input("x", {f32, {64}});
    g.output("out", g.named("c3").relu(g.named("c2").softmax(g.named("c1").exp(g.named("c0").neg(x)))));
    REQUIRE(g.check().ok());
  }
};

void says(const Result<FusionCut>& cut, const char* words) {
  REQUIRE_FALSE(cut.ok());
  CHECK(cut.code() == TN_INVALID);
  CHECK_MESSAGE(std::string(cut.message()).find(words) != std::string::npos, cut.message());
}

}  // namespace

TEST_CASE("options: must_fuse makes a group of what no rule would put together") {
  Chain c;
  FusionOptions options;
  options.must_fuse = {{"c1", "c2"}};
  const FusionCut cut = must(fuse(c.g, willing(), options));
  check_cut(c.g, cut);
  CHECK(fused(c.g, cut, {"c1", "c2"}));
  CHECK(group_of(c.g, cut, "c1").rule == "must_fuse");
}

TEST_CASE("options: a must_fuse that cannot be is an error with the path or the device's reason") {
  Chain c;
  FusionOptions options;
  options.must_fuse = {{"c1", "c3"}};
  says(fuse(c.g, willing(), options),
       "must_fuse [c1, c3]: a path leaves and comes back through softmax 'c2'");
  options.must_fuse = {{"c2", "c3"}};
  const auto target =
      picky([](const tn_fragment& f) { return f.node_count > 1 ? std::string("too much") : std::string(); });
  says(fuse(c.g, target, options), "must_fuse [c2, c3]: test:0: too much");
  options.must_fuse = {{"c0", "c1", "c2"}, {"c0", "c1"}};
  CHECK_MESSAGE(fuse(c.g, willing(), options).ok(), "what is asked for twice is there");
  options.must_fuse = {{"c0", "c1"}, {"c1", "c2"}};
  says(fuse(c.g, willing(), options), "exp 'c1' is in 'must_fuse' already");
}

TEST_CASE("options: a must_fuse of fewer than two nodes is an error, and bars none of them from a fusion") {
  Chain c;
  FusionOptions options;
  options.must_fuse.emplace_back();
  says(fuse(c.g, willing(), options),
       "must_fuse []: it names no node: name two nodes or more, or leave the list out");
  const std::vector<std::vector<std::string>> lists{{"c1"}, {"c1", "c1"}, {"c1", "*1"}};
  for (const std::vector<std::string>& list : lists) {
    options.must_fuse = {list};
    says(fuse(c.g, willing(), options),
         "it names exp 'c1' alone: name two nodes or more, or leave the list out");
  }
  options.must_fuse = {{"c*"}};
  CHECK_MESSAGE(must(fuse(c.g, willing(), options)).groups.size() == 1, "a star may stand for several");
}

TEST_CASE("options: never_fuse leaves nodes alone, by name or by the beginning of it") {
  Chain c;
  FusionOptions options;
  options.never_fuse = {"c0"};
  CHECK(fused(c.g, must(fuse(c.g, willing(), options)), {"c0"}));
  options.never_fuse = {"c*"};
  CHECK(must(fuse(c.g, willing(), options)).groups.size() == 4);
  options.must_fuse = {{"c0", "c1"}};
  says(fuse(c.g, willing(), options), "never_fuse names neg 'c0'");
}

TEST_CASE("options: each node that never_fuse keeps from a grown group has one line, the others none") {
  Graph g;
  auto value = g.named("a").exp(g.input("x", {f32, {64}}));
  const auto middle = g.named("b").neg(value);
  g.output("y", g.named("c").relu(middle));
  g.output("z", g.named("d").abs(middle));
  g.output("s", g.named("s").softmax(middle));
  FusionOptions options;
  options.never_fuse = {"b", "s"};
  const FusionCut cut = must(fuse(g, willing(), options));
  check_cut(g, cut);
  CHECK(cut.groups.size() == 5);
  REQUIRE_MESSAGE(cut.refusals.size() == 1, reasons(cut));
  CHECK(cut.refusals.front().rule == "elementwise");
  CHECK(cut.refusals.front().nodes == Indexes{0, 1});
  CHECK(cut.refusals.front().reason == "never_fuse names neg 'b'");
  options.never_fuse = {"*"};
  CHECK_MESSAGE(must(fuse(g, willing(), options)).refusals.size() == 3, "three edges, four nodes");
}

TEST_CASE("options: a rule that is off is not used, and elementwise = false neither") {
  Chain c;
  FusionOptions options;
  options.off = {"elementwise"};
  CHECK(must(fuse(c.g, willing(), options)).groups.size() == 4);
  options = {};
  options.elementwise = false;
  CHECK(must(fuse(c.g, willing(), options)).groups.size() == 4);
  CHECK(must(fuse(c.g, willing())).groups.size() == 3);
}

TEST_CASE("options: a name that nothing has is an error with the nearest one") {
  Chain c;
  FusionOptions options;
  options.never_fuse = {"c7"};
  says(fuse(c.g, willing(), options), "never_fuse: no node makes a value called 'c7' (did you mean 'c");
  options = {};
  options.off = {"elementwize"};
  says(fuse(c.g, willing(), options),
       "off: test:0 has no rule or pattern called 'elementwize' (did you mean 'elementwise'?)");
}

TEST_CASE("options: a gain below the least is refused with its figures") {
  Chain c;
  FusionOptions options;
  options.min_gain_ns = 1e9;
  const FusionCut cut = must(fuse(c.g, willing(), options));
  CHECK(cut.groups.size() == 4);
  CHECK(reasons(cut).find("no gain") != std::string::npos);
}

TEST_CASE("options: a group stays below max_nodes") {
  Graph g;
  auto value = g.input("x", {f32, {64}});
  for (int i = 0; i < 9; ++i) value = g.exp(value);
  g.output("out", value);
  FusionOptions options;
  options.max_nodes = 4;
  const FusionCut cut = must(fuse(g, willing(), options));
  check_cut(g, cut);
  CHECK(cut.groups.size() == 3);
  CHECK(reasons(cut).find("together they are 5 nodes, and max_nodes is 4") != std::string::npos);
}
