// SPDX-License-Identifier: Apache-2.0
// steps.cpp: the steps of steps.hpp.
#include "steps.hpp"

#include <doctest/doctest.h>

namespace tenon::test {
namespace {

// A convolution or product: parameters, and how many times backward multiplies with them.
struct Weight {
  uint64_t elements = 0;
  double uses = 0;
};

struct Conv {
  uint64_t out = 0, in = 0, size = 0, area = 0;
};

std::vector<Conv> convolutions() {
  std::vector<Conv> out{{64, 3, 7, 112 * 112}};
  uint64_t in = 64, width = 64, area = 56 * 56;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      out.push_back({width, in, 1, area});
      out.push_back({width, width, 3, area});
      out.push_back({4 * width, width, 1, area});
      if (block == 0) out.push_back({4 * width, in, 1, area});
      in = 4 * width;
    }
    width *= 2;
    area /= 4;
  }
  return out;
}

// Ready in reverse, each after its part of `backward`.
StepProfile spread(const std::vector<Weight>& weights, double backward) {
  StepProfile step;
  double all = 0, done = 0;
  for (const Weight& weight : weights) all += weight.uses;
  for (const Weight& weight : weights)
    step.gradients.push_back(
        {.name = "p" + std::to_string(step.gradients.size()), .elements = weight.elements});
  for (size_t i = weights.size(); i-- > 0;) {
    done += weights[i].uses;
    step.gradients[i].ready_ns = done / all * backward;
  }
  return step;
}

}  // namespace

StepProfile resnet50() {
  StepProfile step;
  int number = 0;
  for (const Conv& conv : convolutions()) {
    const std::string name = "conv" + std::to_string(number++);
    step.gradients.push_back(
        {.name = name + "_weights", .elements = conv.out * conv.in * conv.size * conv.size});
    step.gradients.push_back({.name = "bn_" + name + "_scale", .elements = conv.out});
    step.gradients.push_back({.name = "bn_" + name + "_offset", .elements = conv.out});
  }
  step.gradients.push_back({.name = "fc_0.w_0", .elements = 2048 * 1000});
  step.gradients.push_back({.name = "fc_0.b_0", .elements = 1000});
  return step;
}

StepProfile resnet50_study() {
  std::vector<Weight> weights;
  for (const Conv& conv : convolutions()) {
    const uint64_t elements = conv.out * conv.in * conv.size * conv.size;
    weights.push_back({elements, static_cast<double>(elements * conv.area)});
    weights.push_back({512, 0});
    weights.push_back({512, 0});
  }
  weights.push_back({2048 * 1000, 2048.0 * 1000});
  weights.push_back({1000, 0});
  return spread(weights, 120 * ms);
}

StepProfile gpt2_study() {
  std::vector<Weight> weights{{50257 * 768, 0}, {1024 * 768, 0}};
  for (int layer = 0; layer < 12; ++layer) {
    for (const uint64_t elements : {768 * 3 * 768, 768 * 768, 768 * 3072, 3072 * 768}) {
      weights.push_back({elements, static_cast<double>(elements)});
      weights.push_back({elements == 768 * 3072 ? 3072u : 768u, 0});
    }
    for (int i = 0; i < 4; ++i) weights.push_back({768, 0});
  }
  weights.push_back({768, 0});
  weights.push_back({768, 0});
  return spread(weights, 150 * ms);
}

CommTarget over(CostTable cost, uint32_t ranks) {
  CommTarget target{.name = "paper", .ranks = ranks};
  target.all_reduce.push_back({Route::flat, cost});
  target.reduce_scatter = cost;
  target.all_gather = std::move(cost);
  return target;
}

CommPlan planned(const StepProfile& step, const CommTarget& target, const OverlapOptions& options) {
  auto plan = plan_communication(step, target, options);
  REQUIRE_MESSAGE(plan.ok(), plan.message());
  return std::move(plan).take();
}

StepProfile chain(const std::vector<uint64_t>& elements, double gap) {
  StepProfile step;
  for (size_t i = 0; i < elements.size(); ++i)
    step.gradients.push_back({.name = "g" + std::to_string(i),
                              .elements = elements[i],
                              .ready_ns = gap * static_cast<double>(elements.size() - i)});
  return step;
}

int between(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
}

}  // namespace tenon::test
