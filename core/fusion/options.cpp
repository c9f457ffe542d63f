// SPDX-License-Identifier: Apache-2.0
// options.cpp: what was asked for: names, groups that must be, and what a device of whole graphs cannot honour.
//
// Invariant: every name is looked up and every list has two nodes, whatever the device; what is not honoured is refused in words.
#include "base/text.hpp"
#include "fusion/names.hpp"
#include "fusion/scheduler.hpp"

#include <algorithm>
#include <iterator>

namespace tenon::fusion {
namespace {

constexpr std::string_view own_rules[] = {"elementwise", "optimizers"};

Status impossible(const std::vector<std::string>& words, const std::string& reason) {
  return Status(TN_INVALID, "must_fuse [" + base::join(words, ", ") + "]: " + reason);
}

}  // namespace

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

// The nodes of one list of must_fuse.
Result<Scheduler::Candidate> Scheduler::must_candidate(const std::vector<std::string>& words) const {
  Candidate out{.nodes = {}, .rule = "must_fuse", .opinion = {}};
  for (const std::string& word : words) {
    const auto nodes = TN_TRY(nodes_named(graph_, word, "must_fuse"));
    out.nodes.insert(out.nodes.end(), nodes.begin(), nodes.end());
  }
  std::sort(out.nodes.begin(), out.nodes.end());
  out.nodes.erase(std::unique(out.nodes.begin(), out.nodes.end()), out.nodes.end());
  if (out.nodes.size() > 1) return out;
  const std::string named = out.nodes.empty() ? "no node" : called(graph_, out.nodes.front()) + " alone";
  return impossible(words, "it names " + named + ": name two nodes or more, or leave the list out");
}

Status Scheduler::take_must() {
  for (const std::vector<std::string>& words : options_.must_fuse) {
    const Candidate candidate = TN_TRY(must_candidate(words));
    if (contained(candidate)) continue;
    if (!take(candidate)) return impossible(words, refusals_.back().reason);
    const Opinion opinion = TN_TRY(judge_.ask(candidate.nodes));
    if (!opinion.is_one()) return impossible(words, target_.device + ": " + opinion.support.reason);
  }
  return {};
}

// All that runs as one group: what must be together is.
Status Scheduler::take_whole_graph() {
  for (const std::vector<std::string>& words : options_.must_fuse) {
    const std::string reason = claimed(TN_TRY(must_candidate(words)));
    if (!reason.empty()) return impossible(words, reason);
  }
  std::vector<uint32_t> all;
  for (uint32_t node = 0; node < state_.size(); ++node) {
    if (state_[node] != Node::dropped) all.push_back(node);
  }
  if (all.size() < 2 || !contraction_.join(all).done) return {};
  rule_[all.front()] = "whole_graph";
  return refuse_to_part();
}

// What asks for several launches where there is one.
Status Scheduler::refuse_to_part() {
  const std::string why = target_.device + " runs whole graphs only: ";
  for (const std::string& word : options_.never_fuse) {
    std::vector<uint32_t> nodes = TN_TRY(nodes_named(graph_, word, "never_fuse"));
    std::erase_if(nodes, [&](uint32_t node) { return state_[node] == Node::dropped; });
    if (!nodes.empty()) refuse(std::move(nodes), "never_fuse", why + "nothing stays alone");
  }
  std::vector<std::string> off;
  for (const std::string& word : options_.off) off.push_back(base::quoted(word));
  if (!options_.elementwise) off.emplace_back("elementwise groups");
  if (!options_.patterns) off.emplace_back("patterns");
  if (!options_.optimizers) off.emplace_back("groups of updates");
  if (!off.empty()) refuse({}, "off", why + "without " + base::join(off, ", ") + " it is one launch, too");
  return {};
}

}  // namespace tenon::fusion
