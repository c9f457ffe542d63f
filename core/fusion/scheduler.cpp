// SPDX-License-Identifier: Apache-2.0
// scheduler.cpp: options, taking groups, and the finished cut.
#include "fusion/scheduler.hpp"

#include "base/text.hpp"
#include "fusion/names.hpp"
#include "graph/columns.hpp"

#include <algorithm>
#include <iterator>

namespace tenon::fusion {
namespace {

constexpr std::string_view own_rules[] = {"elementwise", "optimizers"};

}  // namespace

Scheduler::Scheduler(const Graph& graph, const FusionTarget& target, const FusionOptions& options)
    : graph_(graph),
      target_(target),
      options_(options),
      contraction_(graph),
      judge_(graph, target),
      is_output_(graph.values().size()),
      state_(graph.nodes().size(), Node::free),
      rule_(graph.nodes().size()),
      spaces_(graph.nodes().size()) {
  for (const Graph::Output& output : graph.outputs()) is_output_[output.value] = true;
  for (uint32_t node = 0; node < graph.nodes().size(); ++node) {
    const auto op = static_cast<size_t>(graph.nodes()[node].op);
    if (by_op_.size() <= op) by_op_.resize(op + 1);
    by_op_[op].push_back(node);
  }
}

// What no output and no collective needs does not run.
void Scheduler::drop_unneeded() {
  std::vector<bool> needed(graph_.nodes().size());
  for (uint32_t node = static_cast<uint32_t>(needed.size()); node-- > 0;) {
    const Graph::Node& told = graph_.nodes()[node];
    needed[node] = graph::columns_of(told.op).family == graph::Family::COLLECTIVE;
    for (const uint32_t value : told.outputs) {
      if (value == TN_ABSENT) continue;
      const auto& users = graph_.values()[value].users;
      needed[node] = needed[node] || is_output_[value] ||
                     std::any_of(users.begin(), users.end(), [&](uint32_t user) { return needed[user]; });
    }
    if (!needed[node]) state_[node] = Node::dropped;
  }
}

bool Scheduler::is_off(std::string_view rule) const {
  return std::any_of(options_.off.begin(), options_.off.end(),
                     [&](const std::string& word) { return matches(word, rule); });
}

Status Scheduler::read_options() {
  std::vector<std::string_view> rules(std::begin(own_rules), std::end(own_rules));
  for (const FusionPattern& pattern : target_.patterns) rules.push_back(pattern.name);
  for (const std::string& word : options_.off) {
    if (std::none_of(rules.begin(), rules.end(), [&](std::string_view rule) { return matches(word, rule); }))
      return Status(TN_INVALID, "off: " + target_.device + " has no rule or pattern called " +
                                    base::quoted(word) + base::did_you_mean(word, rules));
  }
  for (const std::string& word : options_.never_fuse) {
    for (const uint32_t node : TN_TRY(nodes_named(graph_, word, "never_fuse"))) {
      if (state_[node] == Node::free) state_[node] = Node::alone;
    }
  }
  return {};
}

void Scheduler::refuse(std::vector<uint32_t> nodes, std::string rule, std::string reason, double gain_ns) {
  refusals_.push_back(
      {.nodes = std::move(nodes), .rule = std::move(rule), .reason = std::move(reason), .gain_ns = gain_ns});
}

std::string Scheduler::claimed(const Candidate& candidate) const {
  for (const uint32_t node : candidate.nodes) {
    if (state_[node] == Node::dropped) return "nothing needs " + called(graph_, node);
    if (state_[node] == Node::alone) return "never_fuse names " + called(graph_, node);
    if (state_[node] == Node::taken) {
      const uint32_t group = contraction_.group_of(node);
      std::vector<uint32_t> others;
      std::ranges::remove_copy(contraction_.nodes_of(group), std::back_inserter(others), node);
      return called(graph_, node) + " is in '" + rule_[group] + "' already" +
             (others.empty() ? "" : ", with " + called(graph_, others));
    }
  }
  return "";
}

std::string Scheduler::path_in_words(const Contraction::Outcome& outcome) const {
  if (outcome.gave_up)
    return "whether a path leaves and comes back is not known after a look at the neighbourhood";
  return "a path leaves and comes back through " + called(graph_, outcome.path);
}

// Whether its nodes are together already, in something larger: then nothing is lost.
bool Scheduler::contained(const Candidate& candidate) const {
  if (candidate.nodes.empty()) return false;
  const uint32_t group = contraction_.group_of(candidate.nodes.front());
  return std::ranges::all_of(candidate.nodes, [&](uint32_t node) {
    return state_[node] == Node::taken && contraction_.group_of(node) == group;
  });
}

bool Scheduler::take(const Candidate& candidate) {
  if (contained(candidate)) return true;
  std::string reason = claimed(candidate);
  if (reason.empty()) {
    const Contraction::Outcome outcome =
        contraction_.join(candidate.nodes);  // each is a group of its own until now
    if (outcome.done) {
      for (const uint32_t node : candidate.nodes) state_[node] = Node::taken;
      rule_[contraction_.group_of(candidate.nodes.front())] = candidate.rule;
      return true;
    }
    reason = path_in_words(outcome);
  }
  refuse(candidate.nodes, candidate.rule, std::move(reason), candidate.opinion.gain_ns());
  return false;
}

Status Scheduler::take_must() {
  for (const std::vector<std::string>& words : options_.must_fuse) {
    Candidate candidate{.nodes = {}, .rule = "must_fuse", .opinion = {}};
    for (const std::string& word : words) {
      const auto nodes = TN_TRY(nodes_named(graph_, word, "must_fuse"));
      candidate.nodes.insert(candidate.nodes.end(), nodes.begin(), nodes.end());
    }
    std::sort(candidate.nodes.begin(), candidate.nodes.end());
    candidate.nodes.erase(std::unique(candidate.nodes.begin(), candidate.nodes.end()), candidate.nodes.end());
    const auto impossible = [&](const std::string& reason) {
      return Status(TN_INVALID, "must_fuse [" + base::join(words, ", ") + "]: " + reason);
    };
    if (contained(candidate)) continue;
    if (!take(candidate)) return impossible(refusals_.back().reason);
    const Opinion opinion = TN_TRY(judge_.ask(candidate.nodes));
    if (!opinion.is_one()) return impossible(target_.device + ": " + opinion.support.reason);
  }
  return {};
}

FusionGroup Scheduler::group_of(std::vector<uint32_t> nodes, std::string rule, const Opinion& opinion) const {
  return {.nodes = std::move(nodes),
          .rule = std::move(rule),
          .support = opinion.support,
          .launches_saved = opinion.launches_alone - std::min(opinion.launches_alone, 1U),
          .cost_ns = opinion.cost_ns,
          .gain_ns = opinion.gain_ns(),
          .bytes = opinion.traffic.bytes,
          .bytes_saved = opinion.bytes_alone - std::min(opinion.bytes_alone, opinion.traffic.bytes)};
}

Result<FusionCut> Scheduler::finish() {
  FusionCut cut;
  for (const uint32_t group : contraction_.in_order()) {
    const auto nodes = contraction_.nodes_of(group);
    if (state_[nodes.front()] == Node::dropped) {
      cut.dropped.push_back(nodes.front());
      continue;
    }
    const Opinion opinion = TN_TRY(judge_.ask(nodes));
    std::string rule = nodes.size() == 1 ? "alone" : rule_[group];
    cut.groups.push_back(group_of({nodes.begin(), nodes.end()}, std::move(rule), opinion));
    cut.views += opinion.view ? 1 : 0;
    cut.bytes_before += opinion.bytes_alone;
    cut.bytes_after += opinion.traffic.bytes;
    cut.cost_before_ns += opinion.alone_ns;
    cut.cost_after_ns += opinion.cost_ns;
  }
  for (const auto& [edge, reason] : apart_) {
    if (contraction_.group_of(edge.first) == contraction_.group_of(edge.second)) continue;
    refuse({edge.first, edge.second}, "elementwise", reason);
  }
  std::stable_sort(refusals_.begin(), refusals_.end(),
                   [](const FusionRefusal& a, const FusionRefusal& b) { return a.nodes < b.nodes; });
  cut.refusals = std::move(refusals_);
  cut.questions = judge_.questions();
  return cut;
}

Result<FusionCut> Scheduler::run() {
  drop_unneeded();
  TN_TRY(read_options());
  if (target_.whole_graph) {
    std::vector<uint32_t> all;
    for (uint32_t node = 0; node < state_.size(); ++node) {
      if (state_[node] != Node::dropped) all.push_back(node);
    }
    if (all.size() > 1 && contraction_.join(all).done) rule_[all.front()] = "whole_graph";
    return finish();
  }
  TN_TRY(take_must());
  if (options_.patterns) TN_TRY(take_patterns());
  if (options_.optimizers && !is_off("optimizers")) TN_TRY(take_optimizers());
  if (options_.elementwise && !is_off("elementwise")) {
    grow();
    TN_TRY(settle());
  }
  return finish();
}

}  // namespace tenon::fusion

namespace tenon {

Result<FusionCut> fuse(const Graph& graph, const FusionTarget& target, const FusionOptions& options) {
  TN_TRY(graph.check());
  if (!target.supports)
    return Status(TN_INVALID,
                  "fuse: the target '" + target.device + "' answers no questions: set `supports`");
  return fusion::Scheduler(graph, target, options).run();
}

}  // namespace tenon
