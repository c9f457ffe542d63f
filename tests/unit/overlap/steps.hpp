// SPDX-License-Identifier: Apache-2.0
// steps.hpp: steps of known models, and random ones.
#pragma once

#include <tenon/overlap.hpp>

#include <random>

namespace tenon::test {

inline constexpr double ms = 1e6;

// The 161 gradients of ResNet-50 with their names and sizes, in the order of parameters; all ready at once.
StepProfile resnet50();

// ResNet-50 and GPT-2 (124 M) as a study of bucket rules models them: a gradient is ready when backward has done its share of
// the multiplications, batch-norm parameters are 512 wide. Backward takes 120 and 150 ms.
StepProfile resnet50_study();
StepProfile gpt2_study();

// One route, one stream.
CommTarget over(CostTable cost, uint32_t ranks = 16);

// What plan_communication makes of these; a failure fails the test.
CommPlan planned(const StepProfile& step, const CommTarget& target, const OverlapOptions& options = {});

// Elements of each, ready one `gap` after the other, the last of the list first.
StepProfile chain(const std::vector<uint64_t>& elements, double gap);

int between(std::mt19937_64& random, int low, int high);

}  // namespace tenon::test
