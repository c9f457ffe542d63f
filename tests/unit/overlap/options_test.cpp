// SPDX-License-Identifier: Apache-2.0
// What cannot be is refused by name; what cannot take effect is told.
#include "steps.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace tenon;

namespace {

const CommTarget target = test::over(CostTable::linear(1000, 1), 4);

void refuses(const StepProfile& step, const CommTarget& to, const OverlapOptions& options,
             const std::string& words) {
  const auto plan = plan_communication(step, to, options);
  CHECK(plan.code() == TN_INVALID);
  CHECK_MESSAGE(std::string(plan.message()).find(words) != std::string::npos, plan.message());
}

template <class Change>
void refuses_step(const std::string& words, Change&& change) {
  StepProfile step = test::chain({16, 16}, 1);
  change(step);
  refuses(step, target, {}, words);
}

template <class Change>
void refuses_target(const std::string& words, Change&& change) {
  CommTarget to = target;
  change(to);
  refuses(test::chain({16}, 1), to, {}, words);
}

std::string noted(const OverlapOptions& options, const CommTarget& to = target) {
  const CommPlan plan = test::planned(test::chain({16, 16}, 1), to, options);
  std::string out;
  for (const CommPlan::Note& note : plan.notes())
    out += note.option + " -> " + note.effective + ": " + note.reason + "\n";
  return out;
}

}  // namespace

TEST_CASE("options: a step that cannot be is refused by the name of the gradient") {
  refuses_step("has no gradients", [](StepProfile& step) { step.gradients.clear(); });
  refuses_step("two gradients are called 'g0'", [](StepProfile& step) { step.gradients[1].name = "g0"; });
  refuses_step("a gradient has no name", [](StepProfile& step) { step.gradients[1].name = ""; });
  refuses_step("gradient 'g1' is of i32", [](StepProfile& step) { step.gradients[1].dtype = i32; });
  refuses_step("gradient 'g1': ready_ns = -1", [](StepProfile& step) { step.gradients[1].ready_ns = -1; });
  refuses_step("needed_ns = nan", [](StepProfile& step) {
    step.gradients[1].needed_ns = std::numeric_limits<double>::quiet_NaN();
  });
  refuses_step("'g1' has 18446744073709551615 elements",
               [](StepProfile& step) { step.gradients[1].elements = UINT64_MAX; });
  refuses_step("take more than", [](StepProfile& step) {
    for (int i = 2; i < 40; ++i)
      step.gradients.push_back({.name = "h" + std::to_string(i), .elements = uint64_t{1} << 46});
  });
  refuses_step("update_ns = inf",
               [](StepProfile& step) { step.update_ns = std::numeric_limits<double>::infinity(); });
}

TEST_CASE("options: a target that cannot be is refused with the figure") {
  refuses_target("ranks = 0 is not from 1", [](CommTarget& to) { to.ranks = 0; });
  refuses_target("alignment = 48 is not a power of two", [](CommTarget& to) { to.alignment = 48; });
  refuses_target("max_streams = 0", [](CommTarget& to) { to.max_streams = 0; });
  refuses_target("contention.occupies = 1.5", [](CommTarget& to) { to.contention.occupies = 1.5; });
  refuses_target("contention.slowed = 0.5", [](CommTarget& to) { to.contention.slowed = 0.5; });
  refuses_target("contention.delay_ns = -2", [](CommTarget& to) { to.contention.delay_ns = -2; });
  refuses_target("division.ns_per_byte = -1", [](CommTarget& to) { to.division.ns_per_byte = -1; });
  refuses_target("flows = -1", [](CommTarget& to) { to.flows = -1; });
  refuses_target("all_reduce needs a cost table", [](CommTarget& to) { to.all_reduce.clear(); });
  refuses_target("route flat is listed twice",
                 [](CommTarget& to) { to.all_reduce.push_back(to.all_reduce.front()); });
}

TEST_CASE("options: figures that do not fit the target are refused") {
  refuses(test::chain({16}, 1), target, {.hierarchical_allreduce_inter_nranks = 3},
          "does not divide the 4 ranks of paper");
  refuses(test::chain({16}, 1), target, {.replan_drift = 0}, "replan_drift");
  CommTarget bare = target;
  bare.all_gather = {};
  refuses(test::chain({16}, 1), bare, {.sharded = true},
          "reduce_scatter and all_gather need a cost table each");
}

TEST_CASE("options: defaults leave nothing to note") { CHECK(noted({}) == ""); }

TEST_CASE("options: more streams than there are become as many as there are") {
  CHECK(noted({.nccl_comm_num = 9}) == "nccl_comm_num = 9 -> 4: paper takes no more\n");
}

TEST_CASE("options: groups need a route with groups, and figures measured for them") {
  CHECK(noted({.use_hierarchical_allreduce = true}) ==
        "use_hierarchical_allreduce = true -> false: paper has no route with groups\n");
  CommTarget grouped = target;
  grouped.ranks_per_group = 2;
  grouped.all_reduce.push_back({Route::leaders, CostTable::linear(5000, 5)});
  CHECK(noted({.use_hierarchical_allreduce = true}, grouped) == "");
  CHECK(noted({.hierarchical_allreduce_inter_nranks = 4}, grouped).find("measured with groups of 2") !=
        std::string::npos);
}

TEST_CASE("options: limits and pieces have no effect on rules that know none") {
  CHECK(noted({.mode = BucketRule::ddp, .fuse_grad_size_in_mb = 16, .partition_mb = 4}) ==
        "fuse_grad_size_in_MB = 16 -> 0: mode ddp cuts by a rule of its own\n"
        "partition_MB = 4 -> 0: mode ddp cuts by a rule of its own\n");
}

TEST_CASE("options: fuse_broadcast_ops = false is told why not, in sharded mode and in the other") {
  CHECK(noted({.fuse_broadcast_ops = false}) ==
        "fuse_broadcast_ops = false -> true: only sharded mode sends parameters back\n");
  CHECK(noted({.fuse_broadcast_ops = false, .sharded = true}) ==
        "fuse_broadcast_ops = false -> true: a shard is a range of its bucket, which is gathered whole\n");
}

TEST_CASE("options: without fuse_all_reduce_ops each gradient goes alone") {
  const CommPlan plan = test::planned(test::chain({16, 16, 16}, 1), target, {.fuse_all_reduce_ops = false});
  CHECK(plan.buckets().size() == 3);
  CHECK(plan.options().mode == BucketRule::per_tensor);
}

TEST_CASE("options: names of modes read back, and an unknown one is told the names there are") {
  for (const BucketRule rule : {BucketRule::automatic, BucketRule::documents, BucketRule::none})
    CHECK(*bucket_rule_from(name(rule)) == rule);
  CHECK(bucket_rule_from("document").message() ==
        "one of automatic, documents, per_tensor, ddp, paddle, mg_wfbp, none (did you mean 'documents'?)");
}
