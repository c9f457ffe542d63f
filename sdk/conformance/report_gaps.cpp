// SPDX-License-Identifier: Apache-2.0
// report_gaps.cpp: what a plugin lacks, told once for each reason and not once for each of a thousand cases.
#include "conformance/report.hpp"

#include "conformance/words.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace tenon::conform {

namespace {

// "op.conv2d" of "op.conv2d.f32.strided": what one entry of capabilities.toml would speak of.
std::string family(const std::string& tag) {
  const size_t first = tag.find('.');
  return tag.substr(0, first == std::string::npos ? first : tag.find('.', first + 1));
}

std::string reason_of(const CaseResult& result) {
  if (result.verdict != Verdict::unsupported) return result.finding.reason;
  return result.declared + (result.expires.empty() ? "" : words(" (until ", result.expires, ")"));
}

bool is_gap(const CaseResult& result) {
  return result.verdict == Verdict::unsupported || result.verdict == Verdict::unexplained;
}

// The families of which something works: an entry for all of them would be an unexpected pass.
std::set<std::string> working_families(const Report& report) {
  std::set<std::string> out;
  for (const CaseResult& result : report.results) {
    if (!is_gap(result) && !result.finding.tag.empty()) out.insert(family(result.finding.tag));
  }
  return out;
}

// `tags` as few patterns: a family of which nothing works is one.
std::vector<std::string> kinds_of(const std::vector<std::string>& tags,
                                  const std::set<std::string>& working) {
  std::map<std::string, std::vector<std::string>> families;
  for (const std::string& tag : tags) families[family(tag)].push_back(tag);
  std::vector<std::string> out;
  for (const auto& [name, members] : families) {
    if (members.size() > 1 && !working.contains(name)) {
      out.push_back(name + ".*");
    } else {
      out.insert(out.end(), members.begin(), members.end());
    }
  }
  return out;
}

}  // namespace

std::vector<Gap> gaps_of(const Report& report) {
  std::vector<Gap> out;
  std::map<std::pair<bool, std::string>, size_t> places;  // by declared reason, or by family
  for (const CaseResult& result : report.results) {
    if (!is_gap(result)) continue;
    const bool explained = result.verdict == Verdict::unsupported;
    const std::string tag = result.finding.tag.empty() ? result.name : result.finding.tag;
    const std::string key = explained ? reason_of(result) : family(tag);
    const auto [place, added] = places.try_emplace({explained, key}, out.size());
    if (added) out.push_back({.explained = explained, .reason = reason_of(result)});
    Gap& gap = out[place->second];
    ++gap.cases;
    if (std::find(gap.tags.begin(), gap.tags.end(), tag) == gap.tags.end()) gap.tags.push_back(tag);
  }
  const std::set<std::string> working = working_families(report);
  for (Gap& gap : out) gap.kinds = kinds_of(gap.tags, working);
  return out;
}

std::vector<std::string> tolerance_lines(const Report& report) {
  std::vector<std::string> out;
  for (const ToleranceUse& use : tolerance_uses(report.declared, report.results, report.today())) {
    const DeclaredTolerance& d = *use.declared;
    std::string line = words(d.op, ".", d.dtype, ": ", told(d.slack), " (until ", d.expires, "): ", d.reason);
    if (use.expired) line += "; past its date, it does not count";
    if (!use.expired && use.cases > 0) line += words("; ", use.needed, " of ", use.cases, " cases need it");
    out.push_back(std::move(line));
  }
  return out;
}

void print_gaps(std::ostream& out, const Report& report, const Style& style) {
  constexpr size_t told = 6;
  const std::vector<Gap> gaps = gaps_of(report);
  if (!gaps.empty()) out << "\nNot offered by the plugin:\n";
  for (const Gap& gap : gaps) {
    std::string kinds;
    for (size_t i = 0; i < std::min(told, gap.kinds.size()); ++i)
      kinds += (i == 0 ? "" : ", ") + gap.kinds[i];
    if (gap.kinds.size() > told) kinds += words(" and ", gap.kinds.size() - told, " more");
    out << "  " << kinds << style.quiet(words(" (", gap.cases, gap.cases == 1 ? " case)" : " cases)")) << ": "
        << gap.reason << "\n";
    if (gap.explained) continue;
    out << "    " << style.bad("unexplained") << ": say why in capabilities.toml: [[unsupported]] match = \""
        << gap.kinds.front() << "\" reason = \"…\", and expires = a date or permanent = true\n";
  }
}

}  // namespace tenon::conform
