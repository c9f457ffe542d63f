// SPDX-License-Identifier: Apache-2.0
// explain.cpp: a cut in words: one line for each fusion, each refusal and each node that the device does not run.
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
    for (const FusionGroup& group : cut.groups) rule_width_ = std::max(rule_width_, group.rule.size());
    for (const FusionRefusal& refusal : cut.refusals)
      rule_width_ = std::max(rule_width_, refusal.rule.size());
  }

  std::string run() {
    totals();
    for (size_t at = 0; at < cut_.groups.size(); ++at) {
      if (cut_.groups[at].nodes.size() > 1) fused(cut_.groups[at], at < engines_.size() ? engines_[at] : "");
    }
    for (const FusionRefusal& refusal : cut_.refusals) refused(refusal);
    for (const FusionGroup& group : cut_.groups) {
      if (group.support.verdict == Verdict::no) not_run(group);
    }
    for (const uint32_t node : cut_.dropped)
      out_ += head("dropped", "alone") + fusion::called(graph_, node) + ": no output needs it\n";
    return std::move(out_);
  }

 private:
  void totals() {
    const size_t nodes = graph_.nodes().size() - cut_.dropped.size(), groups = cut_.groups.size();
    const size_t launches = groups - cut_.views;
    size_t saved = 0;
    for (const FusionGroup& group : cut_.groups) saved += group.launches_saved;
    out_ += target_.device + ": " + base::counted(nodes, "node") + " in " + std::to_string(launches) +
            (launches == 1 ? " launch" : " launches") +
            (cut_.views > 0 ? " and " + base::counted(cut_.views, "view") : "") + ", " +
            std::to_string(saved) + " saved; " + base::bytes_in_words(cut_.bytes_after) +
            " moved instead of " + base::bytes_in_words(cut_.bytes_before) + "; predicted " +
            base::time_in_words(cut_.cost_after_ns) + " instead of " +
            base::time_in_words(cut_.cost_before_ns) + "; " + base::counted(cut_.questions, "question") +
            " asked\n";
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
    out_ += head("refused", refusal.rule) + fusion::called(graph_, refusal.nodes) + ": " + refusal.reason;
    if (refusal.gain_ns > 0) out_ += " (would save " + base::time_in_words(refusal.gain_ns) + ")";
    out_ += '\n';
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
