// SPDX-License-Identifier: Apache-2.0
// A device may promise a fragment by its rules and refuse it when it compiles: the graph is cut another way, which is told, and
// computes the same. What no other cut helps ends with the device's reason.
#include "integration/plan/world.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

// A runtime whose device refuses the n-th compilation.
struct Refusing {
  explicit Refusing(const std::string& n) : runtime(open({"fault=compile:" + n + ":unsupported"})) {}
  Runtime runtime;
  Device device = target(runtime);
  Stream stream = must(device.stream());
};

Graph chain() {
  Graph g("chain");
  const auto x = g.input("x", {f32, {64}});
  g.output("y", g.named("c").neg(g.named("b").abs(g.named("a").neg(x))));
  return g;
}

bool takes_chains(Device& device) {
  const FusionCut cut = must(fuse(chain(), must(fusion_target(device))));
  return cut.groups.size() == 1 && cut.groups.front().rule == "elementwise";
}

}  // namespace

TEST_CASE("recut: a group that is refused when it is compiled is cut another way, and told") {
  Refusing w("1");
  if (!takes_chains(w.device)) TENON_SKIP("fusion", w.device.name() + " does not take three nodes as one");
  const Plan made = must(plan(chain(), w.device));
  CHECK(made.cut().groups.size() > 1);
  const std::string told = made.explain();
  CHECK_HAS(told, "recut    a group of 3 nodes ('elementwise'): ");
  CHECK_HAS(told, "injected by fault rule 'compile:1:unsupported'");
  CHECK(run(made, w.device, w.stream, {{"x", Floats(64, 3)}}).at("y") == Floats(64, -3));
}

TEST_CASE("recut: refusals go on until single nodes are left, whose refusal is the end") {
  Refusing w("*");
  const auto refused = plan(chain(), w.device);
  CHECK(refused.code() == TN_UNSUPPORTED);
  CHECK_HAS(std::string(refused.message()), w.device.name() + " does not run ");
  CHECK_HAS(std::string(refused.message()), "injected by fault rule 'compile:*:unsupported'");
}

TEST_CASE("recut: what must be one group is not cut") {
  Refusing w("1");
  if (!takes_chains(w.device)) TENON_SKIP("fusion", w.device.name() + " does not take three nodes as one");
  PlanOptions options;
  options.fusion.must_fuse = {{"a", "b"}};
  const auto refused = plan(chain(), w.device, options);
  CHECK(refused.code() == TN_UNSUPPORTED);
  CHECK_HAS(std::string(refused.message()), "does not run a group of 2 nodes ('must_fuse')");
}
