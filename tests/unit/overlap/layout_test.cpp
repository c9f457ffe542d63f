// SPDX-License-Identifier: Apache-2.0
// Where gradients live: aligned slots, buckets as views, the tail beside them.
#include "steps.hpp"

#include <doctest/doctest.h>

using namespace tenon;

namespace {

const CommTarget target = test::over(CostTable::linear(1000, 1), 4);

CommPlan one_bucket(const StepProfile& step, OverlapOptions options = {}) {
  options.mode = BucketRule::none;
  return test::planned(step, target, options);
}

}  // namespace

TEST_CASE("arena: slots are aligned, gaps are sent and counted, nothing is copied") {
  const CommPlan plan = one_bucket(test::chain({10, 16, 1}, 1));  // 40, 64 and 4 bytes, the last first
  const Arena& arena = plan.arena();
  CHECK(arena.slots[2].offset == 0);
  CHECK(arena.slots[1].offset == 64);
  CHECK(arena.slots[0].offset == 128);
  CHECK(arena.slots[0].bytes == 40);
  CHECK(arena.gap_bytes == 60 + 24);
  CHECK(arena.copied_bytes == 0);
  // Three limbs, found_inf and one word for three parameters, in the operation that sends the gradients.
  CHECK(plan.tail().offset == 192);
  CHECK(plan.tail().words() == 5);
  REQUIRE(plan.buckets().size() == 1);
  CHECK(plan.buckets()[0].views == std::vector<BucketView>{{f32, 0, 192 + 20, true}});
  CHECK(plan.buckets()[0].bytes == 212);
  CHECK(arena.bytes == 256);
}

TEST_CASE(
    "arena: a bucket of two element types is two operations of one group, and the tail a third when it must "
    "be") {
  StepProfile step = test::chain({32, 32, 32}, 1);
  step.gradients[1].dtype = bf16;
  const CommPlan plan = one_bucket(step);
  CHECK(plan.buckets()[0].views ==
        std::vector<BucketView>{{f32, 0, 256, true}, {bf16, 256, 64, true}, {f32, 320, 20, true}});
}

TEST_CASE("arena: in sharded mode each rank's shard is aligned, and the tail goes to all") {
  const CommPlan plan = one_bucket(test::chain({16, 16, 16}, 1), {.sharded = true});
  CHECK(plan.buckets()[0].views == std::vector<BucketView>{{f32, 0, 256, false}, {f32, 256, 20, true}});
  CHECK(plan.arena().gap_bytes == 64);
  CHECK(plan.gathers().size() == 1);
}

TEST_CASE("arena: a sparse gradient has no slot, and the log says so") {
  StepProfile step = test::chain({16, 16, 16}, 1);
  step.gradients[1].sparse = true;
  const CommPlan plan = one_bucket(step);
  CHECK(plan.arena().slots[1].bytes == 0);
  CHECK(plan.buckets()[0].members.size() == 2);
  CHECK(plan.summary() == "2 all-reduce operators, after fusion 1; 1 sparse gradient not fused");
  CHECK(plan.tail().parameters == 3);
}

TEST_CASE("arena: with nothing but sparse gradients the tail still goes") {
  StepProfile step = test::chain({16}, 7);
  step.gradients[0].sparse = true;
  const CommPlan plan = test::planned(step, target);
  REQUIRE(plan.buckets().size() == 1);
  CHECK(plan.buckets()[0].members.empty());
  CHECK(plan.buckets()[0].bytes == plan.tail().bytes);
  CHECK(plan.buckets()[0].ready_ns == 7);
}

TEST_CASE("arena: pieces of a gradient touch each other across buckets and element types") {
  StepProfile step = test::chain({1 << 20, 64, 64, 64}, 1);
  step.gradients[2].dtype = f16;
  const CommPlan plan =
      test::planned(step, target, {.fuse_grad_size_in_mb = 1, .nccl_comm_num = 1, .partition_mb = 1});
  uint64_t seen = 0;
  for (const Bucket& bucket : plan.buckets()) {
    for (const BucketMember& member : bucket.members) {
      CHECK(member.offset == plan.arena().slots[member.gradient].offset + member.first);
      seen += member.gradient == 0 ? 1 : 0;
    }
  }
  CHECK(seen == 4);
}
