// SPDX-License-Identifier: Apache-2.0
// report_gaps.cpp: what a plugin lacks, told once for each reason and not once for each of a thousand cases.
#include "conformance/report.hpp"

#include "conformance/words.hpp"

#include <algorithm>
#include <map>

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

// What the entry's `match` must be for all of `gap`.
std::string match_for(const Gap& gap) {
  return gap.tags.size() == 1 ? gap.tags.front() : family(gap.tags.front()) + ".*";
}

}  // namespace

std::vector<Gap> gaps_of(const Report& report) {
  std::vector<Gap> out;
  std::map<std::pair<bool, std::string>, size_t> places;  // by declared reason, or by family
  for (const CaseResult& result : report.results) {
    if (result.verdict != Verdict::unsupported && result.verdict != Verdict::unexplained) continue;
    const bool explained = result.verdict == Verdict::unsupported;
    const std::string tag = result.finding.tag.empty() ? result.name : result.finding.tag;
    const std::string key = explained ? reason_of(result) : family(tag);
    const auto [place, added] = places.try_emplace({explained, key}, out.size());
    if (added) out.push_back({.explained = explained, .reason = reason_of(result)});
    Gap& gap = out[place->second];
    ++gap.cases;
    if (std::find(gap.tags.begin(), gap.tags.end(), tag) == gap.tags.end()) gap.tags.push_back(tag);
  }
  for (Gap& gap : out) gap.match = match_for(gap);
  return out;
}

void print_gaps(std::ostream& out, const Report& report, const Style& style) {
  constexpr size_t told = 3;
  const std::vector<Gap> gaps = gaps_of(report);
  if (!gaps.empty()) out << "\nNot offered by the plugin:\n";
  for (const Gap& gap : gaps) {
    std::string tags;
    for (size_t i = 0; i < std::min(told, gap.tags.size()); ++i) tags += (i == 0 ? "" : ", ") + gap.tags[i];
    if (gap.tags.size() > told) tags += words(" and ", gap.tags.size() - told, " more");
    out << "  " << tags << style.quiet(words(" (", gap.cases, gap.cases == 1 ? " case)" : " cases)")) << ": "
        << gap.reason << "\n";
    if (gap.explained) continue;
    out << "    " << style.bad("unexplained") << ": say why in capabilities.toml: [[unsupported]] match = \""
        << gap.match << "\" reason = \"…\"\n";
  }
}

}  // namespace tenon::conform
