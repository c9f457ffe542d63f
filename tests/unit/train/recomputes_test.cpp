// SPDX-License-Identifier: Apache-2.0
// Whether the way back makes values again: where the device has the fusion for it, and nothing in the strategy is in its way.
#include "train/recomputes.hpp"

#include <doctest/doctest.h>

using namespace tenon;
using train::recomputes;

namespace {

Graph way_back() {
  Graph g("way_back");
  const TensorSpec image{f32, {2, 3, 4, 4}}, channel{f32, {3}};
  const auto dx =
      g.node(Op::batch_norm_grad, {g.input("dy", image), g.input("x", image), g.input("scale", channel),
                                   g.input("mean", channel), g.input("inverse", channel)});
  g.output("dx", dx[0]);
  REQUIRE_MESSAGE(g.check().ok(), g.check().message());
  return g;
}

FusionTarget serving(const char* pattern = "bn_act_backward") {
  FusionTarget out;
  out.patterns.push_back({.name = pattern, .steps = {}});
  return out;
}

Strategy with(const char* option, const char* value) {
  Strategy out;
  const Status set = out.set(option, value);
  REQUIRE_MESSAGE(set.ok(), set.message());
  return out;
}

}  // namespace

TEST_CASE("recomputes: where the device publishes the fusion, unless it takes graphs whole") {
  CHECK(recomputes(way_back(), Strategy(), serving()));
  CHECK(!recomputes(way_back(), Strategy(), serving("act_bn_backward")));
  FusionTarget whole = serving();
  whole.whole_graph = true;
  CHECK(!recomputes(way_back(), Strategy(), whole));
}

TEST_CASE("recomputes: not where there is no batch norm's gradient") {
  Graph forward("forward");
  forward.output("y", forward.relu(forward.input("x", {f32, {4}})));
  CHECK(!recomputes(forward, Strategy(), serving()));
}

TEST_CASE("recomputes: not where the strategy turns the fusion off") {
  CHECK(!recomputes(way_back(), with("fuse_patterns", "false"), serving()));
  CHECK(!recomputes(way_back(), with("fuse_bn_act_ops", "false"), serving()));
  CHECK(!recomputes(way_back(), with("fusion_off", "bn_act_backward"), serving()));
}

TEST_CASE("recomputes: not where the strategy names nodes, which may take the three apart") {
  Strategy fused, alone;
  fused.must_fuse = {{"a", "b"}};
  alone.never_fuse = {"relu.*"};
  CHECK(!recomputes(way_back(), fused, serving()));
  CHECK(!recomputes(way_back(), alone, serving()));
}
