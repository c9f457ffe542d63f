// SPDX-License-Identifier: Apache-2.0
// report_files.cpp: the report for machines: JSON, and JUnit XML as CI servers read it.
#include "conformance/report.hpp"

#include "conformance/json.hpp"

#include <map>

namespace tenon::conform {

namespace {

// Escapes for XML 1.0; control characters that it cannot hold become '?'.
std::string xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return out;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "\n") + line;
  return out;
}

std::string reason_of(const CaseResult& result) {
  if (!result.declared.empty()) return result.declared;
  if (!result.finding.failures.empty()) return result.finding.failures.front();
  return result.finding.reason;
}

void write_case(std::string& out, const Report& report, const CaseResult& result) {
  const std::string group = result.name.substr(0, result.name.find(':'));
  out += words("    <testcase classname=\"level", result.level, ".", xml(group), "\" name=\"",
               xml(result.name), result.round > 0 ? words(" (round ", result.round, ")") : "", "\" time=\"",
               result.milliseconds / 1000, "\">\n");
  if (counts_as_failure(result.verdict, report.options.verify)) {
    const std::string body =
        joined(result.finding.failures) + "\nagain: " + reproduce_line(report, result) + "\n" + result.output;
    out += words("      <failure type=\"", name(result.verdict), "\" message=\"", xml(reason_of(result)),
                 "\">", xml(body), "</failure>\n");
  } else if (result.verdict != Verdict::passed && result.verdict != Verdict::unexpected_pass) {
    out += words("      <skipped message=\"", name(result.verdict), ": ", xml(reason_of(result)), "\"/>\n");
  }
  if (!result.finding.warnings.empty()) {
    out += words("      <system-out>", xml(joined(result.finding.warnings)), "</system-out>\n");
  }
  out += "    </testcase>\n";
}

}  // namespace

std::string report_junit(const Report& report) {
  size_t failures = 0, skipped = 0;
  std::string cases;
  for (const CaseResult& result : report.results) {
    const bool failed = counts_as_failure(result.verdict, report.options.verify);
    failures += failed;
    skipped += !failed && result.verdict != Verdict::passed && result.verdict != Verdict::unexpected_pass;
    write_case(cases, report, result);
  }
  const std::string suite = report.plugin ? report.plugin->name : report.options.plugin;
  return words("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"tenon conform ",
               xml(suite), "\" tests=\"", report.results.size(), "\" failures=\"", failures, "\" skipped=\"",
               skipped, "\" time=\"", report.seconds, "\">\n", cases, "  </testsuite>\n</testsuites>\n");
}

std::string report_json(const Report& report) {
  const Options& o = report.options;
  Json out{{"conformance", 1},
           {"library", o.plugin},
           {"digest", report.digest},
           {"plugin", report.plugin ? to_json(*report.plugin) : Json()},
           {"trouble", report.trouble},
           {"device", o.device},
           {"seed", o.seed},
           {"quick", o.quick},
           {"verify", o.verify},
           {"repeat", o.repeat},
           {"capabilities", report.declared.file},
           {"passed", report.passed()},
           {"executed", report.executed()},
           {"seconds", report.seconds}};
  std::map<std::string, size_t> verdicts;
  out["cases"] = Json::array();
  for (const CaseResult& result : report.results) {
    ++verdicts[name(result.verdict)];
    Json one = to_json(result);
    one["again"] = reproduce_line(report, result);
    out["cases"].push_back(std::move(one));
  }
  out["verdicts"] = verdicts;
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tenon::conform
