// SPDX-License-Identifier: Apache-2.0
// When to plan anew: between steps, with nothing in flight, when the step would take another time than was planned.
#include "overlap/timing.hpp"
#include "steps.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

using namespace tenon;

namespace {

const CommTarget target = test::over(CostTable::linear(test::ms, 1), 2);

StepProfile slower(StepProfile step, double by) {
  for (Gradient& gradient : step.gradients) gradient.ready_ns *= by;
  return step;
}

Replan judged(const CommPlan& plan, const StepProfile& step, const CommTarget& to = target) {
  auto found = judge_replan(plan, step, to, true, 0);
  REQUIRE_MESSAGE(found.ok(), found.message());
  return std::move(found).take();
}

}  // namespace

TEST_CASE("replan: what was planned is predicted again, for every mode") {
  const StepProfile step = test::chain({250'000, 1'000, 250'000, 70'000}, 2 * test::ms);
  for (int mode = 0; mode <= static_cast<int>(BucketRule::none); ++mode) {
    for (const bool sharded : {false, true}) {
      const CommPlan plan =
          test::planned(step, target, {.mode = static_cast<BucketRule>(mode), .sharded = sharded});
      const auto now = predict(plan, step, target);
      REQUIRE_MESSAGE(now.ok(), now.message());
      CHECK(now->step_ns == doctest::Approx(plan.predicted().step_ns));
      CHECK(now->exposed_ns == doctest::Approx(plan.predicted().exposed_ns));
      CHECK_FALSE(judged(plan, step).due);
    }
  }
}

TEST_CASE(
    "replan: is due when arrivals or the network drift further than the threshold, and says by how much") {
  const StepProfile step = test::chain({250'000, 250'000, 250'000}, 10 * test::ms);
  const CommPlan plan = test::planned(step, target);
  CHECK_FALSE(judged(plan, slower(step, 1.05)).due);
  const Replan late = judged(plan, slower(step, 1.5));
  CHECK(late.due);
  CHECK(late.drift == doctest::Approx(0.47).epsilon(0.02));
  CHECK(late.reason.find("more than 10.0 %") != std::string::npos);
  CHECK(judged(plan, step, test::over(CostTable::linear(20 * test::ms, 1), 2)).due);
  CHECK_FALSE(judged(test::planned(step, target, {.replan_drift = 0.6}), slower(step, 1.5)).due);
}

TEST_CASE("replan: gradients as a plan made them late are those of computing alone") {
  auto random = test::generator();
  for (int round = 0; round < 100; ++round) {
    std::vector<uint64_t> elements;
    for (int i = test::between(random, 1, 12); i > 0; --i)
      elements.push_back(static_cast<uint64_t>(test::between(random, 1, 900)) * 1000);
    const StepProfile step = test::chain(elements, test::between(random, 1, 4) * test::ms);
    CommTarget busy = target;
    busy.contention = {test::between(random, 0, 3) / 4.0, test::between(random, 1, 5) * 1.0,
                       test::between(random, 0, 2) * 0.3 * test::ms};
    const CommPlan plan = test::planned(step, busy, {.nccl_comm_num = 1});
    // A bucket's time is that of its last gradient; those between are not told by a plan.
    StepProfile late = step;
    for (const Bucket& bucket : plan.buckets()) {
      for (const BucketMember& member : bucket.members)
        late.gradients[member.gradient].ready_ns = bucket.ready_ns;
    }
    const StepProfile found = overlap::alone(plan, late, busy);
    for (const Bucket& bucket : plan.buckets()) {
      double expected = 0;
      for (const BucketMember& member : bucket.members)
        expected = std::max(expected, step.gradients[member.gradient].ready_ns);
      for (const BucketMember& member : bucket.members)
        CHECK(found.gradients[member.gradient].ready_ns == doctest::Approx(expected));
    }
  }
}

TEST_CASE("replan: is never due within a step or with a bucket in flight") {
  const StepProfile step = test::chain({250'000}, 10 * test::ms);
  const CommPlan plan = test::planned(step, target);
  const auto within = judge_replan(plan, slower(step, 9), target, false, 0);
  const auto flying = judge_replan(plan, slower(step, 9), target, true, 3);
  REQUIRE((within.ok() && flying.ok()));
  CHECK_FALSE(within->due);
  CHECK(within->reason == "a step is running");
  CHECK_FALSE(flying->due);
  CHECK(flying->reason == "3 buckets are in flight");
}

TEST_CASE("replan: a step of another model is refused") {
  const CommPlan plan = test::planned(test::chain({10, 20}, 1), target);
  CHECK(predict(plan, test::chain({10}, 1), target).message() ==
        "the plan is of 2 gradients, the step has 1");
  CHECK(predict(plan, test::chain({10, 21}, 1), target).message() ==
        "gradient 1 is 'g1' of 20 elements in the plan, 'g1' of 21 elements in the step");
  CHECK(predict(CommPlan(), test::chain({10}, 1), target).code() == TN_INVALID);
}
