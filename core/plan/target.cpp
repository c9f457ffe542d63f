// SPDX-License-Identifier: Apache-2.0
// target.cpp: a device as the fusion scheduler sees it.
#include "plan/figures.hpp"

#include <tenon/plan.hpp>

#include <algorithm>

namespace tenon {
namespace {

FusionPattern pattern_of(const tn_pattern& given) {
  FusionPattern pattern{.name = given.name == nullptr ? "" : given.name};
  for (uint32_t i = 0; i < given.step_count; ++i) {
    const tn_pattern_step& step = given.steps[i];
    FusionPattern::Step out{.optional = (step.flags & TN_PATTERN_OPTIONAL) != 0,
                            .output = (step.flags & TN_PATTERN_OUTPUT) != 0};
    for (uint32_t k = 0; k < step.op_count; ++k) out.ops.push_back(static_cast<Op>(step.ops[k]));
    out.operands.assign(step.operands, step.operands + step.operand_count);
    pattern.steps.push_back(std::move(out));
  }
  return pattern;
}

// A list that counts more than it holds is its plugin's mistake, and no reason to fall.
bool is_whole(const tn_pattern_list& list) {
  if (list.count != 0 && list.items == nullptr) return false;
  return std::all_of(list.items, list.items + list.count, [](const tn_pattern& pattern) {
    if (pattern.step_count != 0 && pattern.steps == nullptr) return false;
    return std::all_of(pattern.steps, pattern.steps + pattern.step_count, [](const tn_pattern_step& step) {
      return (step.op_count == 0 || step.ops != nullptr) &&
             (step.operand_count == 0 || step.operands != nullptr);
    });
  });
}

Result<std::vector<FusionPattern>> patterns_of(const Device& device) {
  tn_pattern_list list{};
  tn_error error = no_error();
  TN_TRY(status_of(device.plugin().kernel->patterns(device.handle(), &list, &error), error));
  if (!is_whole(list))
    return Status(TN_INTERNAL,
                  "device '" + device.name() +
                      "' publishes patterns that count more than they hold: mend its kernel.patterns");
  std::vector<FusionPattern> patterns;
  for (uint64_t i = 0; i < list.count; ++i) patterns.push_back(pattern_of(list.items[i]));
  return patterns;
}

}  // namespace

Result<FusionTarget> fusion_target(Device& device) {
  FusionTarget target{.device = device.name()};
  target.whole_graph = (device.plugin().features & TN_FEATURE_WHOLE_GRAPH) != 0;
  target.max_bindings = device.limits().max_bindings;
  target.patterns = TN_TRY(patterns_of(device));
  const plan_room::Figures figures = TN_TRY(plan_room::figures_of(device));
  target.launch_ns = figures.launch_ns;
  target.bytes_per_ns = figures.bytes_per_ns;
  target.supports = [device](const Fragment& fragment) mutable { return device.supports(fragment); };
  return target;
}

}  // namespace tenon
