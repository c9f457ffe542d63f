// SPDX-License-Identifier: Apache-2.0
// report_junit.cpp: the report as JUnit XML, as CI servers read it.
//
// Invariant: the suite has a failure exactly when the run failed, whatever it failed for.
#include "conformance/report.hpp"

#include "conformance/json.hpp"

#include <iomanip>

namespace tenon::conform {

namespace {

// Valid UTF-8: what a plugin wrote may be anything.
std::string clean(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

// Escapes for XML 1.0; control characters that it cannot hold become '?'.
std::string xml(const std::string& text) {
  std::string out;
  for (const char c : clean(text)) {
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

std::string message_of(const CaseResult& result) {
  if (!result.declared.empty()) {
    return result.declared + (result.expires.empty() ? "" : " (until " + result.expires + ")");
  }
  if (!result.finding.failures.empty()) return result.finding.failures.front();
  return result.finding.reason;
}

bool is_skip(Verdict verdict, bool verify) {
  return !counts_as_failure(verdict, verify) && verdict != Verdict::passed &&
         verdict != Verdict::unexpected_pass;
}

void write_case(std::string& out, const Report& report, const CaseResult& result) {
  const std::string group = result.name.substr(0, result.name.find(':'));
  out += words("    <testcase classname=\"level", result.level, ".", xml(group), "\" name=\"",
               xml(result.name), result.round > 0 ? words(" (round ", result.round, ")") : "", "\" time=\"",
               result.milliseconds / 1000, "\">\n");
  if (counts_as_failure(result.verdict, report.options.verify)) {
    const std::string body =
        joined(result.finding.failures) + "\nagain: " + reproduce_line(report, result) + "\n" + result.output;
    out += words("      <failure type=\"", name(result.verdict), "\" message=\"", xml(message_of(result)),
                 "\">", xml(body), "</failure>\n");
  } else if (is_skip(result.verdict, report.options.verify)) {
    out += words("      <skipped message=\"", name(result.verdict), ": ", xml(message_of(result)), "\"/>\n");
  }
  std::vector<std::string> notes = result.finding.warnings;
  if (!result.finding.eased.empty()) notes.push_back(result.finding.eased);
  if (!notes.empty()) out += words("      <system-out>", xml(joined(notes)), "</system-out>\n");
  out += "    </testcase>\n";
}

// What fails a run without being a case of it.
void write_failure(std::string& out, const char* name, const std::string& story) {
  out += words("    <testcase classname=\"run\" name=\"", name, "\" time=\"0\">\n      <failure message=\"",
               xml(story), "\"/>\n    </testcase>\n");
}

std::string property(const std::string& name, const std::string& value) {
  return words("      <property name=\"", xml(name), "\" value=\"", xml(value), "\"/>\n");
}

std::string properties(const Report& report) {
  const Options& o = report.options;
  std::string out = property("library", o.plugin) + property("sha256", report.digest) +
                    property("seed", words(o.seed)) + property("device", words(o.device));
  if (!report.declared.file.empty()) out += property("capabilities", report.declared.file);
  if (!report.declared.file.empty()) out += property("determinism", name(report.declared.determinism));
  for (const std::string& line : tolerance_lines(report)) {
    const size_t colon = line.find(": ");
    out += property("tolerance " + line.substr(0, colon), line.substr(colon + 2));
  }
  for (const std::string& remark : report.remarks) out += property("remark", remark);
  for (const auto& [key, value] : o.options) out += property("option " + key, value);
  for (const auto& [key, value] : o.environment) out += property(key, value);
  for (const Figure& figure : report.performance.figures) {
    out += property(words("perf ", figure.group, ": ", figure.name), figure_text(figure));
  }
  return "    <properties>\n" + out + "    </properties>\n";
}

}  // namespace

std::string report_junit(const Report& report) {
  size_t failures = 0, skipped = 0, extra = 0;
  std::string cases;
  for (const CaseResult& result : report.results) {
    failures += counts_as_failure(result.verdict, report.options.verify);
    skipped += is_skip(result.verdict, report.options.verify);
    write_case(cases, report, result);
  }
  if (report.executed() == 0) write_failure(cases, "a case is executed", "no case was executed"), ++extra;
  if (report.options.verify && !report.complaints.empty()) {
    write_failure(cases, "the declarations hold", joined(report.complaints)), ++extra;
  }
  const std::string suite = report.plugin ? report.plugin->name : report.options.plugin;
  return words("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"tenon conform ",
               xml(suite), "\" timestamp=\"", report.began, "\" tests=\"", report.results.size() + extra,
               "\" failures=\"", failures + extra, "\" skipped=\"", skipped, "\" time=\"", report.seconds,
               "\">\n", properties(report), cases, "  </testsuite>\n</testsuites>\n");
}

}  // namespace tenon::conform
