// SPDX-License-Identifier: Apache-2.0
// explain.cpp: a cut in words: one line for each fusion, each refusal and each node that the device does not run.
#include "base/text.hpp"
#include "fusion/names.hpp"

#include <algorithm>
#include <cstdio>

namespace tenon {
namespace {

std::string bytes_in_words(uint64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto number = static_cast<double>(bytes);
  size_t unit = 0;
  for (; number >= 1024 && unit + 1 < std::size(units); ++unit) number /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", number, units[unit]);
  return text;
}

std::string time_in_words(double ns) {
  char text[32];
  std::snprintf(text, sizeof text, ns < 1e6 ? "%.1f µs" : "%.2f ms", ns < 1e6 ? ns / 1e3 : ns / 1e6);
  return text;
}

void pad(std::string& line, size_t width) {
  if (line.size() < width) line.append(width - line.size(), ' ');
}

class Explainer {
 public:
  Explainer(const Graph& graph, const FusionTarget& target, const FusionCut& cut)
      : graph_(graph), target_(target), cut_(cut) {
    for (const FusionGroup& group : cut.groups) rule_width_ = std::max(rule_width_, group.rule.size());
    for (const FusionRefusal& refusal : cut.refusals)
      rule_width_ = std::max(rule_width_, refusal.rule.size());
  }

  std::string run() {
    totals();
    for (const FusionGroup& group : cut_.groups) {
      if (group.nodes.size() > 1) fused(group);
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
    const size_t nodes = graph_.nodes().size() - cut_.dropped.size(), launches = cut_.groups.size();
    out_ += target_.device + ": " + base::counted(nodes, "node") + " in " + std::to_string(launches) +
            (launches == 1 ? " launch, " : " launches, ") + std::to_string(nodes - launches) + " saved; " +
            bytes_in_words(cut_.bytes_after) + " moved instead of " + bytes_in_words(cut_.bytes_before) +
            "; predicted " + time_in_words(cut_.cost_after_ns) + " instead of " +
            time_in_words(cut_.cost_before_ns) + "; " + base::counted(cut_.questions, "question") +
            " asked\n";
  }

  std::string head(std::string_view what, std::string_view rule) const {
    std::string line(what);
    pad(line, 9);
    line += rule;
    pad(line, 9 + rule_width_ + 2);
    return line;
  }

  void fused(const FusionGroup& group) {
    out_ += head("fused", group.rule) + fusion::called(graph_, group.nodes) + ": saves " +
            std::to_string(group.nodes.size() - 1) + (group.nodes.size() == 2 ? " launch, " : " launches, ") +
            bytes_in_words(group.bytes_saved) + ", " + time_in_words(group.gain_ns);
    if (!group.support.reason.empty()) out_ += " (" + group.support.reason + ")";
    out_ += '\n';
  }

  void refused(const FusionRefusal& refusal) {
    out_ +=
        head("refused", refusal.rule) + fusion::called(graph_, refusal.nodes) + ": " + refusal.reason + '\n';
  }

  void not_run(const FusionGroup& group) {
    out_ += head("not run", group.rule) + fusion::called(graph_, group.nodes) + ": " + group.support.reason +
            '\n';
  }

  const Graph& graph_;
  const FusionTarget& target_;
  const FusionCut& cut_;
  size_t rule_width_ = 5;
  std::string out_{};
};

}  // namespace

std::string explain(const Graph& graph, const FusionTarget& target, const FusionCut& cut) {
  return Explainer(graph, target, cut).run();
}

}  // namespace tenon
