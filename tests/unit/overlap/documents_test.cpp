// SPDX-License-Identifier: Apache-2.0
// Mode documents: the groups that the documents report for ResNet-50's 161 gradients.
#include "steps.hpp"

#include <doctest/doctest.h>

using namespace tenon;

namespace {

std::vector<size_t> groups(uint32_t mb, uint32_t layers, StepProfile step = test::resnet50()) {
  const CommPlan plan = test::planned(
      step, test::over(CostTable::linear(1000, 1)),
      {.mode = BucketRule::documents, .fuse_grad_size_in_mb = mb, .fuse_grad_max_layers = layers});
  std::vector<size_t> out;
  for (const Bucket& bucket : plan.buckets()) out.push_back(bucket.members.size());
  return out;
}

}  // namespace

TEST_CASE("documents: 16 MB and 50 layers make 161 all-reduces 6") {
  CHECK(groups(16, 50) == std::vector<size_t>{51, 49, 33, 9, 9, 10});
}

TEST_CASE("documents: 32 MB and 50 layers make them 5, 32 MB and 20 layers 8") {
  CHECK(groups(32, 50) == std::vector<size_t>{51, 51, 37, 18, 4});
  CHECK(groups(32, 20) == std::vector<size_t>{21, 21, 21, 21, 21, 21, 19, 16});
}

TEST_CASE("documents: without figures they are 32 MB and 50 layers") {
  CHECK(groups(0, 0) == groups(32, 50));
}

TEST_CASE("documents: the line for the log is theirs") {
  const CommPlan plan =
      test::planned(test::resnet50(), test::over(CostTable::linear(1000, 1)),
                    {.mode = BucketRule::documents, .fuse_grad_size_in_mb = 16, .fuse_grad_max_layers = 50});
  CHECK(plan.summary() == "161 all-reduce operators, after fusion 6");
}

TEST_CASE("documents: weight and bias of a layer stay together, wherever the list has them") {
  StepProfile step = test::chain({1 << 20, 1 << 20, 1 << 20, 1 << 20}, 1);
  step.gradients[0].name = "fc_0.w_0";
  step.gradients[1].name = "fc_1.w_0";
  step.gradients[2].name = "fc_0.b_0";
  step.gradients[3].name = "fc_1.b_0";
  const CommPlan plan = test::planned(step, test::over(CostTable::linear(1, 1)),
                                      {.mode = BucketRule::documents, .fuse_grad_size_in_mb = 4});
  REQUIRE(plan.buckets().size() == 2);
  // The layer that is ready first leaves first.
  CHECK(plan.buckets()[0].members[0].gradient == 1);
  CHECK(plan.buckets()[0].members[1].gradient == 3);
  CHECK(plan.buckets()[1].members[0].gradient == 0);
  CHECK(plan.buckets()[1].members[1].gradient == 2);
}
