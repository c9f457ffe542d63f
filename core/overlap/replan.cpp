// SPDX-License-Identifier: Apache-2.0
// replan.cpp: what a plan would take today, and whether that is reason enough for another.
#include "overlap/checks.hpp"
#include "overlap/timing.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

namespace tenon {
namespace {

using overlap::Costs;
using overlap::Load;
using overlap::Transfer;

std::vector<Load> loads_in(const CommPlan& plan, const StepProfile& step) {
  std::vector<Load> out;
  for (const Bucket& bucket : plan.buckets()) {
    Load load{.needed = bucket.needed_ns, .bytes = bucket.bytes, .stream = bucket.stream};
    bool first = true;
    for (const BucketMember& member : bucket.members) {
      const Gradient& gradient = step.gradients[member.gradient];
      load.ready = std::max(load.ready, gradient.ready_ns);
      load.needed = first ? gradient.needed_ns : std::min(load.needed, gradient.needed_ns);
      load.parameter = first ? member.gradient : std::min(load.parameter, member.gradient);
      first = false;
    }
    out.push_back(load);
  }
  for (const Gradient& gradient : step.gradients)
    out.back().ready = std::max(out.back().ready, gradient.ready_ns);
  return out;
}

// What the plan's gradients and the step's do not have in common, or "".
std::string difference(const std::vector<Gradient>& planned, const std::vector<Gradient>& brought) {
  const auto told = [](const Gradient& g) {
    return "'" + g.name + "' of " + std::to_string(g.elements) + " elements";
  };
  if (planned.size() != brought.size())
    return "the plan is of " + std::to_string(planned.size()) + " gradients, the step has " +
           std::to_string(brought.size());
  for (size_t i = 0; i < planned.size(); ++i) {
    if (planned[i].name != brought[i].name || planned[i].elements != brought[i].elements)
      return "gradient " + std::to_string(i) + " is " + told(planned[i]) + " in the plan, " +
             told(brought[i]) + " in the step";
  }
  return "";
}

}  // namespace

// On the clock nothing is disturbed any more: collectives start as they did, and computing is as far as they left it.
StepProfile overlap::alone(const CommPlan& plan, StepProfile measured, const CommTarget& target) {
  if (!target.contention) return measured;
  std::vector<Transfer> transfers = transfers_of(loads_in(plan, measured), Costs(target, plan.options()));
  for (Transfer& transfer : transfers) transfer.after = std::exchange(transfer.ready, 0.0);
  constexpr double all_along = std::numeric_limits<double>::infinity();
  const Progress progress =
      simulate(transfers, sending(plan.streams(), target, plan.options()), all_along).progress;
  for (Gradient& gradient : measured.gradients) gradient.ready_ns = progress.computed(gradient.ready_ns);
  return measured;
}

Result<CommPrediction> predict(const CommPlan& plan, const StepProfile& step, const CommTarget& target) {
  TN_TRY(overlap::check(step, target, plan.options()));
  const std::string other = difference(plan.step().gradients, step.gradients);
  if (!other.empty()) return Status(TN_INVALID, other);
  const Costs costs(target, plan.options());
  const auto sending = overlap::sending(plan.streams(), target, plan.options());
  return overlap::time_of(loads_in(plan, step), step, costs, sending).prediction;
}

Result<Replan> judge_replan(const CommPlan& plan, const StepProfile& measured, const CommTarget& target,
                            bool between_steps, uint32_t in_flight) {
  if (!between_steps) return Replan{.reason = "a step is running"};
  if (in_flight > 0)
    return Replan{.reason = std::to_string(in_flight) + (in_flight == 1 ? " bucket is" : " buckets are") +
                            " in flight"};
  const CommPrediction now = TN_TRY(predict(plan, measured, target));
  const double before = plan.predicted().step_ns;
  Replan out{.drift = before > 0 ? std::abs(now.step_ns - before) / before : now.step_ns > 0 ? 1.0 : 0.0};
  out.due = out.drift > plan.options().replan_drift;
  char text[160];
  std::snprintf(text, sizeof text,
                "the step is predicted at %.3f ms, planned at %.3f: %.1f %% off, %s %.1f %%",
                now.step_ns / 1e6, before / 1e6, out.drift * 100, out.due ? "more than" : "within",
                plan.options().replan_drift * 100);
  out.reason = text;
  return out;
}

}  // namespace tenon
