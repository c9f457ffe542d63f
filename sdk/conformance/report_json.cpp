// SPDX-License-Identifier: Apache-2.0
// report_json.cpp: the report for programs, and the page that carries the same JSON inside.
//
// Invariant: the page is the template with the report put in its one place: it can say nothing that the JSON does not.
#include "conformance/report.hpp"

#include "conformance/html/page.hpp"
#include "conformance/json.hpp"

#include <map>

namespace tenon::conform {

namespace {

Json pairs(const auto& from) {
  Json out = Json::object();
  for (const auto& [key, value] : from) out[key] = value;
  return out;
}

Json cases_json(const Report& report) {
  Json out = Json::array();
  for (const CaseResult& result : report.results) {
    Json one = to_json(result);
    one["fails"] = counts_as_failure(result.verdict, report.options.verify);
    one["again"] = reproduce_line(report, result);
    out.push_back(std::move(one));
  }
  return out;
}

Json performance_json(const Performance& performance) {
  if (!performance.asked) return nullptr;
  Json out{{"remark", performance.remark}, {"figures", Json::array()}};
  for (const Figure& figure : performance.figures) out["figures"].push_back(to_json(figure));
  return out;
}

Json gaps_json(const Report& report) {
  Json out = Json::array();
  for (const Gap& gap : gaps_of(report)) {
    out.push_back({{"tags", gap.tags},
                   {"kinds", gap.kinds},
                   {"cases", gap.cases},
                   {"explained", gap.explained},
                   {"reason", gap.reason}});
  }
  return out;
}

Json tolerances_json(const Report& report) {
  Json out = Json::array();
  for (const ToleranceUse& use : tolerance_uses(report.declared, report.results, report.today())) {
    const DeclaredTolerance& d = *use.declared;
    out.push_back({{"op", d.op},
                   {"dtype", d.dtype},
                   {"allows", told(d.slack)},
                   {"factor", d.slack.factor},
                   {"ulp", d.slack.ulps},
                   {"reason", d.reason},
                   {"expires", d.expires},
                   {"expired", use.expired},
                   {"cases", use.cases},
                   {"needed", use.needed}});
  }
  return out;
}

Json whole(const Report& report) {
  const Options& o = report.options;
  std::map<std::string, size_t> verdicts;
  for (const CaseResult& result : report.results) ++verdicts[name(result.verdict)];
  return {{"conformance", 1},
          {"library", o.plugin},
          {"digest", report.digest},
          {"plugin", report.plugin ? to_json(*report.plugin) : Json()},
          {"trouble", report.trouble},
          {"device", o.device},
          {"options", pairs(o.options)},
          {"seed", o.seed},
          {"quick", o.quick},
          {"sample", o.sample},
          {"verify", o.verify},
          {"round", o.round},
          {"repeat", o.repeat},
          {"level", o.level},
          {"filters", o.filters},
          {"resumed", report.resumed},
          {"capabilities", report.declared.file},
          {"capabilities_digest", report.declared.digest},
          {"determinism", name(report.declared.determinism)},
          {"tolerances", tolerances_json(report)},
          {"complaints", report.complaints},
          {"remarks", report.remarks},
          {"environment", pairs(o.environment)},
          {"began", report.began},
          {"passed", report.passed()},
          {"executed", report.executed()},
          {"seconds", report.seconds},
          {"performance", performance_json(report.performance)},
          {"verdicts", verdicts},
          {"gaps", gaps_json(report)},
          {"cases", cases_json(report)}};
}

std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string report_json(const Report& report) { return text_of(whole(report), 2) + "\n"; }

std::string report_html(const Report& report) {
  std::string data;  // inside <script>, where "</script>" and "<!--" would end or change it
  for (const char c : text_of(whole(report), -1))
    data += c == '<' ? std::string("\\u003c") : std::string(1, c);
  const std::string_view page = page_template(), place = "@REPORT@";
  const size_t at = page.find(place);
  return words(page.substr(0, at), data, page.substr(at + place.size()));
}

}  // namespace tenon::conform
