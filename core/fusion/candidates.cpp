// SPDX-License-Identifier: Apache-2.0
// candidates.cpp: the device's patterns, wherever they are, the best first; and all optimizers at once.
#include "fusion/names.hpp"
#include "fusion/scheduler.hpp"
#include "graph/columns.hpp"

#include <algorithm>
#include <cstdio>

namespace tenon::fusion {
namespace {

std::string figures(const Opinion& opinion) {
  char text[96];
  std::snprintf(text, sizeof text, "together %.1f µs are predicted, one by one %.1f µs",
                opinion.cost_ns / 1000, opinion.alone_ns / 1000);
  return text;
}

bool better(const auto& a, const auto& b) {
  const double gain_a = a.opinion.gain_ns(), gain_b = b.opinion.gain_ns();
  if (gain_a != gain_b) return gain_a > gain_b;
  if (a.nodes.size() != b.nodes.size()) return a.nodes.size() > b.nodes.size();
  return a.nodes < b.nodes;
}

}  // namespace

// Asks the device about nodes that may become one group.
Status Scheduler::consider(std::vector<uint32_t> nodes, const std::string& rule,
                           std::vector<Candidate>& out) {
  Candidate candidate{.nodes = std::move(nodes), .rule = rule, .opinion = {}};
  if (std::string reason = claimed(candidate); !reason.empty()) {
    refuse(std::move(candidate.nodes), rule, std::move(reason));
    return {};
  }
  const uint32_t bindings = judge_.costs().traffic(candidate.nodes).bindings;
  if (target_.max_bindings != 0 && bindings > target_.max_bindings) {
    refuse(std::move(candidate.nodes), rule,
           "it has " + std::to_string(bindings) + " inputs and outputs, and " + target_.device + " takes " +
               std::to_string(target_.max_bindings));
    return {};
  }
  auto asked = judge_.ask(candidate.nodes);
  if (!asked.ok() && asked.code() == TN_INVALID) {  // no piece: a path leaves it and comes back
    refuse(std::move(candidate.nodes), rule, std::string(asked.message()));
    return {};
  }
  candidate.opinion = TN_TRY(std::move(asked));
  const Opinion& opinion = candidate.opinion;
  if (!opinion.is_one()) {
    // Of what it would run step by step the device has told the cost, which is that of the steps.
    const double gain = opinion.support.verdict == Verdict::no ? opinion.gain_ns() : 0;
    refuse(std::move(candidate.nodes), rule, target_.device + ": " + opinion.support.reason, gain);
  } else if (opinion.gain_ns() <= options_.min_gain_ns) {
    const double gain = opinion.gain_ns();
    std::string reason = "no gain: " + figures(opinion);
    refuse(std::move(candidate.nodes), rule, std::move(reason), gain);
  } else {
    out.push_back(std::move(candidate));
  }
  return {};
}

// Everywhere a variant begins, unless a larger one was found there.
Status Scheduler::find(const FusionPattern& pattern, const Variant& variant, std::vector<bool>& found,
                       std::vector<Candidate>& out) {
  for (const Op op : variant.steps[variant.order.front()].ops) {
    const auto number = static_cast<size_t>(op);
    if (number >= by_op_.size()) continue;
    for (const uint32_t node : by_op_[number]) {
      if (found[node]) continue;
      std::vector<uint32_t> nodes = match(graph_, variant, node);
      if (nodes.empty()) continue;
      const uint32_t escaping = escaping_value(graph_, is_output_, variant, nodes);
      std::sort(nodes.begin(), nodes.end());
      if (escaping != TN_ABSENT) {
        refuse(std::move(nodes), pattern.name,
               "the pattern keeps '" + graph_.values()[escaping].name + "' inside, and others need it");
        continue;
      }
      const size_t before = out.size();
      TN_TRY(consider(std::move(nodes), pattern.name, out));
      if (out.size() > before) found[node] = true;
    }
  }
  return {};
}

Status Scheduler::take_patterns() {
  std::vector<Candidate> candidates;
  for (const FusionPattern& pattern : target_.patterns) {
    if (is_off(pattern.name)) continue;
    std::vector<bool> found(graph_.nodes().size());
    for (const Variant& variant : TN_TRY(variants_of(pattern)))
      TN_TRY(find(pattern, variant, found, candidates));
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return better(a, b); });
  for (const Candidate& candidate : candidates) take(candidate);
  return {};
}

// Updates and what stands beside them as one group, if the device takes that.
Result<bool> Scheduler::take_updates_with(const std::vector<uint32_t>& updates,
                                          std::initializer_list<std::span<const uint32_t>> beside) {
  std::vector<uint32_t> all = updates;
  for (const std::span<const uint32_t> more : beside) {
    if (more.empty()) return false;
    all.insert(all.end(), more.begin(), more.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<Candidate> candidates;
  TN_TRY(consider(std::move(all), "optimizers", candidates));
  return !candidates.empty() && take(candidates.front());
}

void Scheduler::refuse_left_alone(const std::vector<uint32_t>& alone) {
  for (const uint32_t node : alone)
    refuse({node}, "optimizers", "never_fuse names it, and the other updates go without it");
}

// All updates of one step, with the scan for what is not finite and the loss's next scale where those go along.
Status Scheduler::take_optimizers() {
  std::vector<uint32_t> updates, scans, scales, alone;
  for (uint32_t node = 0; node < graph_.nodes().size(); ++node) {
    const Op op = graph_.nodes()[node].op;
    const bool is_scan = op == Op::check_finite_and_unscale, is_scale = op == Op::update_loss_scaling;
    if (!is_scan && !is_scale && graph::columns_of(op).family != graph::Family::OPTIMIZER) continue;
    if (state_[node] == Node::alone) alone.push_back(node);
    if (state_[node] == Node::free) (is_scan ? scans : is_scale ? scales : updates).push_back(node);
  }
  if (updates.empty()) return {};
  refuse_left_alone(alone);
  if (TN_TRY(take_updates_with(updates, {scans, scales})) || TN_TRY(take_updates_with(updates, {scans})) ||
      TN_TRY(take_updates_with(updates, {scales})))
    return {};
  for (std::vector<uint32_t>& part : by_arrival(std::move(updates))) {
    if (part.size() == 1) continue;
    std::vector<Candidate> candidates;
    TN_TRY(consider(std::move(part), "optimizers", candidates));
    for (const Candidate& candidate : candidates) take(candidate);
  }
  return {};
}

}  // namespace tenon::fusion
