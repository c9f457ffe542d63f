// SPDX-License-Identifier: Apache-2.0
// explain.cpp: a cut in words: one line for each fusion, each refusal and each node that the device does not run, one for all exchanges.
#include "base/text.hpp"
#include "fusion/names.hpp"

#include <algorithm>
#include <cstdio>

namespace tenon {
namespace {

void pad(std::string& line, size_t width) {
  if (line.size() < width) line.append(width - line.size(), ' ');
}

class Explainer {
 public:
  Explainer(const Graph& graph, const FusionTarget& target, const FusionCut& cut,
            std::span<const std::string> engines)
      : graph_(graph), target_(target), cut_(cut), engines_(engines) {
    for (const FusionGroup& group : cut.groups) {
      if (group.rule != "exchange") rule_width_ = std::max(rule_width_, group.rule.size());
    }
    for (const FusionRefusal& refusal : cut.refusals)
      rule_width_ = std::max(rule_width_, refusal.rule.size());
  }

  std::string run() {
    totals();
    for (size_t at = 0; at < cut_.groups.size(); ++at) {
      if (cut_.groups[at].nodes.size() > 1) fused(cut_.groups[at], at < engines_.size() ? engines_[at] : "");
    }
    for (const FusionRefusal& refusal : cut_.refusals) refused(refusal);
    exchanged();
    for (const FusionGroup& group : cut_.groups) {
      if (group.support.verdict == Verdict::no && group.rule != "exchange") not_run(group);
    }
    for (const uint32_t node : cut_.dropped)
      out_ += head("dropped", "alone") + fusion::called(graph_, node) + ": no output needs it\n";
    return std::move(out_);
  }

 private:
  void totals() {
    const size_t nodes = graph_.nodes().size() - cut_.dropped.size();
    size_t launches = 0, saved = 0;
    for (const FusionGroup& group : cut_.groups) {
      launches += group.rule == "exchange" ? 0 : 1;
      saved += group.launches_saved;
    }
    out_ += target_.device + ": " + base::counted(nodes, "node") + " in " + ways(launches - cut_.views) +
            ", " + std::to_string(saved) + " saved; " + base::bytes_in_words(cut_.bytes_after) +
            " moved instead of " + base::bytes_in_words(cut_.bytes_before) + "; predicted " +
            base::time_in_words(cut_.cost_after_ns) + " instead of " +
            base::time_in_words(cut_.cost_before_ns) + "; " + base::counted(cut_.questions, "question") +
            " asked\n";
  }

  // "2 launches, 1 view and 1 exchange"
  std::string ways(size_t launches) const {
    std::string out = std::to_string(launches) + (launches == 1 ? " launch" : " launches");
    const std::string views = base::counted(cut_.views, "view"),
                      exchanges = base::counted(cut_.exchanges, "exchange");
    if (cut_.views > 0) out += (cut_.exchanges > 0 ? ", " : " and ") + views;
    return cut_.exchanges > 0 ? out + " and " + exchanges : out;
  }

  std::string head(std::string_view what, std::string_view rule) const {
    std::string line(what);
    pad(line, 9);
    line += rule;
    pad(line, 9 + rule_width_ + 2);
    return line;
  }

  void fused(const FusionGroup& group, const std::string& engine) {
    out_ += head("fused", group.rule) + fusion::called(graph_, group.nodes) + ": saves " +
            std::to_string(group.launches_saved) + (group.launches_saved == 1 ? " launch, " : " launches, ") +
            base::bytes_in_words(group.bytes_saved) + ", " + base::time_in_words(group.gain_ns);
    if (!engine.empty()) out_ += ", by " + engine;
    if (!group.support.reason.empty()) out_ += " (" + group.support.reason + ")";
    out_ += '\n';
  }

  void refused(const FusionRefusal& refusal) {
    out_ += head("refused", refusal.rule);
    if (!refusal.nodes.empty()) out_ += fusion::called(graph_, refusal.nodes) + ": ";
    out_ += refusal.reason;
    if (refusal.gain_ns > 0) out_ += " (would save " + base::time_in_words(refusal.gain_ns) + ")";
    out_ += '\n';
  }

  // Of a plan they are taken out, and it tells where they are.
  void exchanged() {
    std::vector<uint32_t> nodes;
    for (const FusionGroup& group : cut_.groups) {
      if (group.rule == "exchange") nodes.insert(nodes.end(), group.nodes.begin(), group.nodes.end());
    }
    if (!nodes.empty())
      out_ += "exchange " + fusion::called(graph_, nodes) + ": summed over ranks, between launches\n";
  }

  void not_run(const FusionGroup& group) {
    out_ += head("not run", group.rule) + fusion::called(graph_, group.nodes) + ": " + group.support.reason +
            '\n';
  }

  const Graph& graph_;
  const FusionTarget& target_;
  const FusionCut& cut_;
  const std::span<const std::string> engines_;
  size_t rule_width_ = 5;
  std::string out_{};
};

}  // namespace

std::string explain(const Graph& graph, const FusionTarget& target, const FusionCut& cut) {
  return Explainer(graph, target, cut, {}).run();
}

std::string fusion::explain(const Graph& graph, const FusionTarget& target, const FusionCut& cut,
                            std::span<const std::string> engines) {
  return Explainer(graph, target, cut, engines).run();
}

}  // namespace tenon
