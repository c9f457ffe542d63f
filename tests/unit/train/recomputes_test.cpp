// SPDX-License-Identifier: Apache-2.0
// Whether the way back makes values again: where the device has the fusion for it, and nothing in the strategy is in its way.
#include "train/recomputes.hpp"

#include <doctest/doctest.h>

using namespace tenon;
using train::recomputes;

namespace {

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
  CHECK(recomputes(Strategy(), serving()));
  CHECK(!recomputes(Strategy(), serving("act_bn_backward")));
  FusionTarget whole = serving();
  whole.whole_graph = true;
  CHECK(!recomputes(Strategy(), whole));
}

TEST_CASE("recomputes: not where the strategy turns the fusion off") {
  CHECK(!recomputes(with("fuse_patterns", "false"), serving()));
  CHECK(!recomputes(with("fuse_bn_act_ops", "false"), serving()));
  CHECK(!recomputes(with("fusion_off", "bn_act_backward"), serving()));
}

TEST_CASE("recomputes: not where the strategy names nodes, which may take the three apart") {
  Strategy fused, alone;
  fused.must_fuse = {{"a", "b"}};
  alone.never_fuse = {"relu.*"};
  CHECK(!recomputes(fused, serving()));
  CHECK(!recomputes(alone, serving()));
}
