// SPDX-License-Identifier: Apache-2.0
// Exposed communication of each rule on two models and two networks, to a tenth of a millisecond. The figures were computed
// by another program, in another language, from the same inputs.
#include "steps.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace tenon;

namespace {

double exposed_ms(const StepProfile& step, const CommTarget& target, BucketRule rule) {
  // Pieces of 4 GiB: no gradient is cut.
  const CommPlan plan = test::planned(
      step, target,
      {.mode = rule, .nccl_comm_num = 1, .partition_mb = rule == BucketRule::automatic ? 4096u : 0u});
  return plan.predicted().exposed_ns / test::ms;
}

void check_row(const StepProfile& step, const CommTarget& target, const std::vector<double>& expected) {
  constexpr BucketRule rules[] = {BucketRule::per_tensor, BucketRule::none,    BucketRule::ddp,
                                  BucketRule::paddle,     BucketRule::mg_wfbp, BucketRule::automatic};
  for (size_t i = 0; i < expected.size(); ++i) {
    const double found = exposed_ms(step, target, rules[i]);
    CHECK_MESSAGE(std::abs(found - expected[i]) < 0.06, name(rules[i]), ": ", found, " ms, not ",
                  expected[i]);
  }
}

const CommTarget ten_gigabit = test::over(CostTable::linear(0.908 * test::ms, 0.74));
const CommTarget infiniband = test::over(CostTable::linear(0.236 * test::ms, 0.406));

}  // namespace

TEST_CASE("exposed: ResNet-50 on sixteen hosts with 10 GbE") {
  check_row(test::resnet50_study(), ten_gigabit, {101.8, 76.6, 8.1, 22.2, 0.9, 0.9});
}

TEST_CASE("exposed: ResNet-50 on sixteen hosts with 56 Gb InfiniBand") {
  check_row(test::resnet50_study(), infiniband, {0.3, 41.7, 4.2, 11.9, 0.3, 0.3});
}

TEST_CASE("exposed: GPT-2 on sixteen hosts with 10 GbE") {
  check_row(test::gpt2_study(), ten_gigabit, {352.8, 369.3, 238.9, 244.1, 229.1, 228.4});
}

TEST_CASE("exposed: no rule beats the automatic mode, free to choose, on any of them") {
  constexpr Contention contentions[] = {{},       {},        {0.3, 3},      {1, 2},
                                        {0.3, 1}, {0.1, 20}, {0.2, 1, 1e6}, {0.9, 2, 1e7}};
  size_t next = 0;
  for (const StepProfile& step : {test::resnet50_study(), test::gpt2_study()}) {
    for (CommTarget target : {ten_gigabit, infiniband, ten_gigabit, infiniband, ten_gigabit, infiniband}) {
      target.contention = contentions[next++ % std::size(contentions)];
      const double ours = test::planned(step, target).predicted().step_ns;
      for (const BucketRule rule : {BucketRule::per_tensor, BucketRule::none, BucketRule::ddp,
                                    BucketRule::paddle, BucketRule::mg_wfbp, BucketRule::documents}) {
        const double theirs = test::planned(step, target, {.mode = rule}).predicted().step_ns;
        CHECK_MESSAGE(ours <= theirs * 1.001, name(rule), ": ", theirs, " ns, ours ", ours);
      }
    }
  }
}
