// SPDX-License-Identifier: Apache-2.0
// What the automatic mode decides: streams, routes, order, pieces, shards.
#include "steps.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tenon;

namespace {

// Three layers of 1 ms each whose gradients take 1 ms of latency and 1 ms of bytes: the documents' figure.
StepProfile figure() { return test::chain({250'000, 250'000, 250'000}, test::ms); }
CommTarget figure_target() { return test::over(CostTable::linear(test::ms, 1), 2); }

// Layers whose parameters are read at equal distances of the next forward, the first one first.
StepProfile with_needs(StepProfile step, double forward) {
  step.forward_ns = forward;
  step.uneven_batches = false;
  for (size_t i = 0; i < step.gradients.size(); ++i)
    step.gradients[i].needed_ns =
        forward * static_cast<double>(i) / static_cast<double>(step.gradients.size());
  return step;
}

}  // namespace

TEST_CASE("plans: serial, then one stream, then three streams: each as fast as the one before, or faster") {
  const double serial =
      test::planned(figure(), figure_target(), {.mode = BucketRule::none}).predicted().step_ns;
  const double one =
      test::planned(figure(), figure_target(), {.mode = BucketRule::per_tensor}).predicted().step_ns;
  const double three =
      test::planned(figure(), figure_target(), {.mode = BucketRule::per_tensor, .nccl_comm_num = 3})
          .predicted()
          .step_ns;
  // Each 1,000,000 bytes, and 20 of the tail.
  CHECK(serial == doctest::Approx(3 * test::ms + 4 * test::ms).epsilon(1e-4));
  CHECK(one == doctest::Approx(test::ms + 3 * 2 * test::ms).epsilon(1e-4));
  // Ready at 1, 2, 3 ms; moving from 2, 3 and 4 on, each alone on the link.
  CHECK(three == doctest::Approx(5 * test::ms).epsilon(1e-4));
  CHECK(test::planned(figure(), figure_target()).predicted().step_ns <= three * 1.001);
}

TEST_CASE(
    "plans: averages come behind sums, divided bucket by bucket or all together, and the step ends with "
    "them") {
  const auto with = [](Division division) {
    CommTarget target = figure_target();
    target.division = division;
    return test::planned(figure(), target, {.mode = BucketRule::per_tensor, .nccl_comm_num = 1}).predicted();
  };
  // Sums are there at 3, 5 and 7 ms, backward is over at 3, and a bucket takes 1 to be divided.
  const CommPrediction none = with({}), each = with({1, true}), all = with({1, false});
  CHECK(none.averaged_ns == none.end_ns);
  CHECK(each.end_ns == none.end_ns);
  CHECK(each.averaged_ns == doctest::Approx(8 * test::ms).epsilon(1e-4));
  CHECK(all.averaged_ns == doctest::Approx(10 * test::ms).epsilon(1e-4));
  CHECK(each.step_ns - none.step_ns == doctest::Approx(1 * test::ms).epsilon(1e-4));
  CHECK(all.step_ns - none.step_ns == doctest::Approx(3 * test::ms).epsilon(1e-4));
}

TEST_CASE("plans: in sharded mode a rank divides its own shard alone") {
  CommTarget target = test::over(CostTable::linear(test::ms, 1), 4);
  const OverlapOptions sharded{.mode = BucketRule::per_tensor, .sharded = true};
  const CommPrediction none = test::planned(figure(), target, sharded).predicted();
  target.division = {1, false};
  const CommPrediction divided = test::planned(figure(), target, sharded).predicted();
  CHECK(divided.averaged_ns - none.end_ns == doctest::Approx(0.75 * test::ms).epsilon(1e-3));
}

TEST_CASE("plans: as many streams as pay, and no more") {
  CommTarget fat = figure_target();
  fat.flows = 1;
  StepProfile slow = test::chain({1, 1}, 100 * test::ms);  // one collective is over long before the next
  CHECK(test::planned(slow, fat).streams() == 1);
  CHECK(test::planned(figure(), fat).streams() > 1);
  CHECK(test::planned(figure(), fat, {.nccl_comm_num = 2}).streams() == 2);
}

TEST_CASE("plans: a rule deals its buckets to the streams in turn, as the documents do") {
  const CommPlan plan = test::planned(test::chain({1, 1, 1, 1, 1}, 10 * test::ms), figure_target(),
                                      {.mode = BucketRule::per_tensor, .nccl_comm_num = 2});
  std::vector<uint32_t> streams;
  for (const Bucket& bucket : plan.buckets()) streams.push_back(bucket.stream);
  CHECK(streams == std::vector<uint32_t>{0, 1, 0, 1, 0});
}

TEST_CASE("plans: limits hold in the automatic mode, too") {
  const CommPlan plan = test::planned(test::resnet50(), test::over(CostTable::linear(test::ms, 0.1)),
                                      {.fuse_grad_size_in_mb = 8, .fuse_grad_max_layers = 20});
  for (const Bucket& bucket : plan.buckets()) {
    CHECK(bucket.members.size() <= 20);
    const bool small = bucket.bytes <= (8u << 20) + plan.tail().bytes;
    CHECK((small || bucket.members.size() == 1));
  }
}

TEST_CASE("plans: each bucket takes the cheapest route, or the cheapest of those with groups when told so") {
  CommTarget target = test::over(CostTable::linear(10'000, 1), 16);
  target.ranks_per_group = 4;
  target.all_reduce.push_back({Route::leaders, CostTable::linear(5'000, 3)});
  target.all_reduce.push_back({Route::sharded, CostTable::linear(40'000, 0.2)});
  StepProfile step = test::chain({2'000'000, 100}, 100 * test::ms);
  const CommPlan free = test::planned(step, target, {.mode = BucketRule::per_tensor});
  CHECK(free.buckets()[0].route == Route::leaders);
  CHECK(free.buckets()[1].route == Route::sharded);
  step.gradients[1].elements = 4'000;
  CHECK(test::planned(step, target, {.mode = BucketRule::per_tensor}).buckets()[0].route == Route::flat);
  const CommPlan grouped =
      test::planned(step, target, {.mode = BucketRule::per_tensor, .use_hierarchical_allreduce = true});
  CHECK(grouped.buckets()[0].route == Route::sharded);
  CHECK(grouped.explain().find("in 4 groups of 4") != std::string::npos);
}

TEST_CASE("plans: a host that waits for each collective is honoured, and its price is told") {
  const CommPlan plan =
      test::planned(figure(), figure_target(), {.nccl_comm_num = 3, .sync_nccl_allreduce = true});
  for (size_t i = 1; i < plan.buckets().size(); ++i)
    CHECK(plan.buckets()[i].start_ns >= plan.buckets()[i - 1].end_ns);
  REQUIRE(plan.notes().size() == 1);
  CHECK(plan.notes()[0].option == "sync_nccl_allreduce = true");
  CHECK(plan.notes()[0].reason.find("ms a step") != std::string::npos);
}

TEST_CASE("plans: what makes updates wait is named, and without it they start bucket by bucket") {
  StepProfile step = figure();
  CHECK(test::planned(step, figure_target()).gate() == "possibly uneven batches");
  step.loss_scaling = step.clip_global_norm = true;
  CHECK(test::planned(step, figure_target()).gate() ==
        "loss scaling, clipping by global norm, possibly uneven batches");
  step.loss_scaling = step.clip_global_norm = step.uneven_batches = false;
  CHECK(test::planned(step, figure_target()).gate() == "");
  step.updates_wait = "enable_backward_optimizer_op_deps";
  CHECK(test::planned(step, figure_target()).gate() == "enable_backward_optimizer_op_deps");
}

TEST_CASE("plans: where updates start early, what the next forward needs first goes first and hides more") {
  const StepProfile step =
      with_needs(test::chain(std::vector<uint64_t>(12, 1'000'000), test::ms), 40 * test::ms);
  const CommTarget target = test::over(CostTable::linear(0.05 * test::ms, 1));
  const CommPlan first = test::planned(step, target, {.nccl_comm_num = 1});
  const CommPlan arrival = test::planned(step, target, {.nccl_comm_num = 1, .priority = false});
  CHECK(first.predicted().exposed_ns < 0.5 * arrival.predicted().exposed_ns);
  StepProfile gated = step;
  gated.uneven_batches = true;
  CHECK(first.predicted().exposed_ns <
        0.5 * test::planned(gated, target, {.nccl_comm_num = 1}).predicted().exposed_ns);
  // The first layer is ready last and leaves before others that were ready.
  const auto with = [](const Bucket& bucket, uint32_t gradient) {
    return std::any_of(bucket.members.begin(), bucket.members.end(),
                       [&](const BucketMember& member) { return member.gradient == gradient; });
  };
  CHECK(with(arrival.buckets().back(), 0));
  CHECK_FALSE(with(first.buckets().back(), 0));
}

TEST_CASE("plans: in sharded mode the gathers hide under the next forward, the first needed first") {
  StepProfile step = with_needs(test::chain(std::vector<uint64_t>(8, 500'000), 4 * test::ms), 60 * test::ms);
  step.uneven_batches = true;
  step.update_ns = test::ms;
  const CommTarget target = test::over(CostTable::linear(0.1 * test::ms, 1), 4);
  const CommPlan plan = test::planned(step, target, {.nccl_comm_num = 1, .sharded = true});
  CHECK(plan.summary().find("8 reduce-scatter operators") == 0);
  double needed = 0, all = 0;
  for (const uint32_t i : plan.gathers()) {
    const Bucket& bucket = plan.buckets()[i];
    CHECK(bucket.needed_ns >= needed);
    CHECK(bucket.gather_start_ns >= plan.predicted().end_ns + step.update_ns - 1);
    needed = bucket.needed_ns;
    all += bucket.gather_end_ns - bucket.gather_start_ns;
  }
  CHECK(plan.gathers().size() == plan.buckets().size());
  CHECK(plan.predicted().exposed_ns < 0.6 * all);
}

TEST_CASE("plans: where nothing says when parameters are read, the gathers go in their order") {
  const CommPlan plan = test::planned(test::chain(std::vector<uint64_t>(8, 500'000), 4 * test::ms),
                                      test::over(CostTable::linear(0.1 * test::ms, 1), 4),
                                      {.nccl_comm_num = 1, .sharded = true});
  REQUIRE(plan.gathers().size() > 1);
  uint32_t before = 0;
  for (const uint32_t i : plan.gathers()) {
    const uint32_t first = plan.buckets()[i].members.back().gradient;
    CHECK(first >= before);
    before = first;
  }
}

TEST_CASE("plans: large gradients are cut where several streams of a fat link can carry the pieces") {
  StepProfile step = test::chain({10'000'000, 10}, test::ms);
  CommTarget target = test::over(CostTable::linear(0.02 * test::ms, 1));
  CHECK(test::planned(step, target).buckets().size() <= 2);
  target.flows = 4;
  const CommPlan cut = test::planned(step, target);
  CHECK(cut.buckets().size() >= 4);
  CHECK(cut.streams() == 4);
  const CommPlan whole = test::planned(step, target, {.partition_mb = 1000});
  CHECK(cut.predicted().exposed_ns < 0.5 * whole.predicted().exposed_ns);
}
