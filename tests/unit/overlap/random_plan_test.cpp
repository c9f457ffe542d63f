// SPDX-License-Identifier: Apache-2.0
// Any plan of any step: every byte is sent once, from where it lives, in an order that can be.
#include "steps.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tenon;

namespace {

using test::between;

StepProfile random_step(std::mt19937_64& random) {
  StepProfile step;
  const bool mixed = between(random, 0, 1) == 1;
  for (int i = between(random, 1, 30); i > 0; --i) {
    Gradient gradient{.name = "g" + std::to_string(i)};
    constexpr DType types[] = {f32, bf16, f16, f64};
    if (mixed) gradient.dtype = types[between(random, 0, 3)];
    gradient.elements = static_cast<uint64_t>(between(random, 0, 4) == 0 ? between(random, 0, 3'000'000)
                                                                         : between(random, 0, 300));
    gradient.ready_ns = between(random, 0, 3) * 1e5;
    gradient.needed_ns = between(random, 0, 9) * 1e5;
    gradient.sparse = between(random, 0, 9) == 0;
    step.gradients.push_back(gradient);
  }
  step.forward_ns = between(random, 0, 10) * 1e5;
  step.backward_ns = between(random, 0, 10) * 1e5;
  step.update_ns = between(random, 0, 3) * 1e4;
  step.uneven_batches = between(random, 0, 1) == 1;
  return step;
}

CommTarget random_target(std::mt19937_64& random) {
  CommTarget target =
      test::over(CostTable::linear(between(random, 0, 5) * 1e4, between(random, 1, 20) / 10.0),
                 static_cast<uint32_t>(between(random, 1, 9)));
  target.alignment = uint64_t{8} << between(random, 0, 6);
  target.max_streams = static_cast<uint32_t>(between(random, 1, 4));
  target.flows = between(random, 1, 3);
  if (between(random, 0, 1) == 1)
    target.contention = {between(random, 0, 4) / 4.0, between(random, 1, 5) * 1.0,
                         between(random, 0, 3) * 1e5};
  return target;
}

OverlapOptions random_options(std::mt19937_64& random) {
  OverlapOptions options{.mode = static_cast<BucketRule>(between(random, 0, 6))};
  if (between(random, 0, 1) == 0) options.mode = BucketRule::automatic;
  options.fuse_grad_size_in_mb = static_cast<uint32_t>(between(random, 0, 2));
  options.fuse_grad_max_layers = static_cast<uint32_t>(between(random, 0, 4));
  options.nccl_comm_num = static_cast<uint32_t>(between(random, 0, 3));
  options.sync_nccl_allreduce = between(random, 0, 4) == 0;
  options.sharded = between(random, 0, 3) == 0;
  options.partition_mb = static_cast<uint32_t>(between(random, 0, 2));
  return options;
}

// What a bucket sends is inside the arena and sent by no other.
void check_views(const CommPlan& plan, uint64_t shard) {
  std::vector<BucketView> views;
  for (const Bucket& bucket : plan.buckets()) {
    uint64_t bytes = 0;
    for (const BucketView& view : bucket.views) {
      bytes += view.bytes;
      if (!view.whole) CHECK(view.bytes % shard == 0);
      if (view.bytes > 0) views.push_back(view);
    }
    CHECK(bytes == bucket.bytes);
  }
  std::sort(views.begin(), views.end(),
            [](const BucketView& a, const BucketView& b) { return a.offset < b.offset; });
  uint64_t at = 0;
  for (const BucketView& view : views) {
    CHECK(view.offset == at);  // no byte between them, none twice
    at = view.offset + view.bytes;
  }
  CHECK(at == plan.tail().offset + plan.tail().bytes);
  CHECK(at <= plan.arena().bytes);
  CHECK(std::any_of(plan.buckets().back().views.begin(), plan.buckets().back().views.end(),
                    [&](const BucketView& view) {
                      return view.whole && view.dtype == f32 && view.offset <= plan.tail().offset &&
                             view.offset + view.bytes == at;
                    }));
}

void check_members(const CommPlan& plan, uint64_t alignment) {
  std::vector<uint64_t> sent(plan.step().gradients.size(), 0);
  for (const Bucket& bucket : plan.buckets()) {
    for (const BucketMember& member : bucket.members) {
      const Arena::Slot& slot = plan.arena().slots[member.gradient];
      CHECK(member.offset == slot.offset + member.first);
      CHECK(slot.offset % alignment == 0);
      sent[member.gradient] += member.bytes;
      const DType dtype = plan.step().gradients[member.gradient].dtype;
      CHECK(std::any_of(bucket.views.begin(), bucket.views.end(), [&](const BucketView& view) {
        return view.dtype == dtype && view.offset <= member.offset &&
               member.offset + member.bytes <= view.offset + view.bytes;
      }));
    }
  }
  uint64_t all = 0;
  for (size_t i = 0; i < sent.size(); ++i) {
    const Gradient& gradient = plan.step().gradients[i];
    CHECK(sent[i] == (gradient.sparse ? 0 : bytes(gradient.dtype, gradient.elements)));
    all += sent[i];
  }
  CHECK(plan.arena().copied_bytes == 0);
  CHECK(all + plan.arena().gap_bytes == plan.tail().offset);
}

void check_times(const CommPlan& plan) {
  std::vector<double> free(plan.streams(), 0.0);
  double latest = 0, last_end = 0;
  for (const Gradient& gradient : plan.step().gradients) latest = std::max(latest, gradient.ready_ns);
  for (const Bucket& bucket : plan.buckets()) {
    REQUIRE(bucket.stream < plan.streams());
    CHECK(bucket.start_ns >= bucket.ready_ns);
    CHECK(bucket.start_ns >= free[bucket.stream]);
    CHECK(bucket.end_ns >= bucket.start_ns);
    free[bucket.stream] = bucket.end_ns;
    last_end = std::max(last_end, bucket.end_ns);
    for (const BucketMember& member : bucket.members)
      CHECK(bucket.ready_ns >= plan.step().gradients[member.gradient].ready_ns);
  }
  CHECK(plan.buckets().back().ready_ns >= latest);
  CHECK(plan.buckets().back().ready_ns <= plan.predicted().backward_ns);
  CHECK(plan.predicted().end_ns == last_end);
  CHECK(plan.predicted().exposed_ns >= 0);
}

}  // namespace

TEST_CASE("any plan: sends every byte once, from where it lives, when it is ready") {
  auto random = test::generator();
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const StepProfile step = random_step(random);
    const CommTarget target = random_target(random);
    const CommPlan plan = test::planned(step, target, random_options(random));
    check_members(plan, target.alignment);
    check_views(plan, target.alignment * target.ranks);
    check_times(plan);
  }
}

TEST_CASE("any plan: is made again the same, and differs from others exactly when its hash does") {
  auto random = test::generator();
  CommPlan before;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const StepProfile step = random_step(random);
    const CommTarget target = random_target(random);
    const OverlapOptions options = random_options(random);
    const CommPlan plan = test::planned(step, target, options), again = test::planned(step, target, options);
    CHECK(plan.hash() == again.hash());
    CHECK(plan.first_difference(again) == "");
    CHECK(plan.diff(again) == "");
    const CommPlan other = test::planned(step, target, random_options(random));
    CHECK((plan.hash() == other.hash()) == plan.first_difference(other).empty());
    CHECK((plan.hash() == before.hash()) == plan.first_difference(before).empty());
    CHECK((plan.hash() == other.hash()) == (plan.terms() == other.terms()));
    CHECK((plan.hash() == before.hash()) == (plan.terms() == before.terms()));
    before = plan;
  }
}
