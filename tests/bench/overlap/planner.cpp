// SPDX-License-Identifier: Apache-2.0
// planner.cpp: what planning takes: 161 and 10,000 gradients, on a link that backward outruns and on one that keeps up, with costs
// measured at twenty sizes, up to four streams to choose from.
#include "../row.hpp"
#include "parts.hpp"

#include <tenon/overlap.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace bench {
namespace {

using namespace tenon;

// Sizes as transformers have them: mostly small, every seventh large.
StepProfile step_of(uint32_t gradients) {
  StepProfile step;
  for (uint32_t i = 0; i < gradients; ++i)
    step.gradients.push_back({.name = "p" + std::to_string(i),
                              .elements = i % 7 == 0 ? 1'000'000u + i % 5 * 300'000 : 1024u + i % 3 * 2048,
                              .ready_ns = (gradients - i) * 1e4});
  return step;
}

CommTarget target_of(double ns_per_byte) {
  std::vector<CostTable::Point> points;
  for (int k = 10; k < 30; ++k) {
    const double bytes = std::exp2(k);
    points.push_back({uint64_t{1} << k, 3e4 + bytes * ns_per_byte * (1 + 4 / std::sqrt(std::sqrt(bytes)))});
  }
  CommTarget target{.name = "link", .ranks = 16};
  target.all_reduce.push_back({Route::flat, *CostTable::measured(points)});
  return target;
}

void row(const std::string& name, uint32_t gradients, double ns_per_byte) {
  const StepProfile step = step_of(gradients);
  const CommTarget target = target_of(ns_per_byte);
  std::string summary;
  Row out = alone(name, 1, [&] {
    const auto plan = plan_communication(step, target);
    if (!plan.ok()) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), plan.error().message.c_str());
      std::exit(1);
    }
    summary = plan->summary() + ", " + std::to_string(plan->streams()) + " streams";
  });
  std::fprintf(stderr, "%s: %s\n", name.c_str(), summary.c_str());
  for (double& ns : out.ours) ns /= 1e6;
  out.unit = "ms";
  print(out);
}

}  // namespace

void planner() {
  row("bucket_plan_10000_gradients", 10'000, 0.5);
  row("bucket_plan_10000_gradients_fast_link", 10'000, 0.005);
  row("bucket_plan_161_gradients", 161, 0.5);
}

}  // namespace bench
