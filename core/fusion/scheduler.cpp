// SPDX-License-Identifier: Apache-2.0
// scheduler.cpp: taking groups, and the finished cut.
#include "fusion/scheduler.hpp"

#include "fusion/names.hpp"
#include "graph/columns.hpp"

#include <algorithm>
#include <iterator>
#include <set>

namespace tenon::fusion {
namespace {

// A sum over ranks: no device is asked for it, who runs the plan takes it between launches.
bool is_exchange(const Graph::Node& node) {
  const auto sums = [](const Attribute& attribute) {
    const auto* const word = std::get_if<std::string>(&attribute.value);
    return attribute.name == "reduce" && word != nullptr && *word == "sum";
  };
  return node.op == Op::all_reduce && std::any_of(node.attributes.begin(), node.attributes.end(), sums);
}

// In the order of their nodes. Variants of a pattern may find the same nodes, and are one candidate: refused once, or not where one
// of them was taken.
std::vector<FusionRefusal> told_once(std::vector<FusionRefusal> refusals,
                                     const std::vector<FusionGroup>& groups) {
  std::stable_sort(refusals.begin(), refusals.end(),
                   [](const FusionRefusal& a, const FusionRefusal& b) { return a.nodes < b.nodes; });
  std::set<std::pair<std::vector<uint32_t>, std::string>> told;
  for (const FusionGroup& group : groups) told.emplace(group.nodes, group.rule);
  std::erase_if(refusals, [&](const FusionRefusal& refusal) {
    return !told.emplace(refusal.nodes, refusal.rule).second;
  });
  return refusals;
}

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
      spaces_(graph.nodes().size()),
      left_alone_(graph.nodes().size()) {
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
    if (nodes.size() == 1 && is_exchange(graph_.nodes()[nodes.front()])) {
      cut.groups.push_back({.nodes = {nodes.front()}, .rule = "exchange"});
      ++cut.exchanges;
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
  cut.refusals = told_once(std::move(refusals_), cut.groups);
  cut.questions = judge_.questions();
  return cut;
}

Result<FusionCut> Scheduler::run() {
  drop_unneeded();
  TN_TRY(read_options());
  if (target_.whole_graph) {
    TN_TRY(take_whole_graph());
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
