// SPDX-License-Identifier: Apache-2.0
// report_text.cpp: the report for a person at a terminal or reading a log.
#include "conformance/report.hpp"

#include "conformance/case.hpp"
#include "conformance/words.hpp"

#include <algorithm>
#include <iomanip>
#include <map>

namespace tenon::conform {

namespace {

std::string paint(bool colours, const char* code, const std::string& text) {
  return colours ? words("\033[", code, "m", text, "\033[0m") : text;
}

std::string milliseconds(double ms) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(ms < 10 ? 1 : 0) << ms << " ms";
  return std::move(out).str();
}

// Verdicts of one group, in order of how good they are.
using Tally = std::map<Verdict, size_t>;

std::string tally_text(const Tally& tally, const Style& style) {
  std::string out;
  for (const auto& [verdict, count] : tally) {
    if (!out.empty()) out += style.quiet(", ");
    const std::string part = words(count, " ", name(verdict));
    out += counts_as_failure(verdict, false) ? style.bad(part) : part;
  }
  return out;
}

// Where a case is counted: the ops together, everything else by its group.
std::string group_of(const CaseResult& result) {
  return result.op.empty() ? result.name.substr(0, result.name.find(':'))
                           : words("ops, level ", result.level);
}

void indent(std::ostream& out, const std::string& text, const char* margin) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out << margin << line << "\n";
}

// The vendor's reason, and until when it counts.
std::string declared_text(const CaseResult& result) {
  return result.declared + (result.expires.empty() ? "" : words(" (until ", result.expires, ")"));
}

// Known defects, which are not gaps: each has a date.
void print_expected_failures(std::ostream& out, const Report& report) {
  if (report.count(Verdict::expected_failure) == 0) return;
  out << "\nExpected failures, declared by the vendor:\n";
  for (const CaseResult& result : report.results) {
    if (result.verdict != Verdict::expected_failure) continue;
    out << "  " << result.name << ": " << declared_text(result) << "\n";
  }
}

void print_tolerances(std::ostream& out, const Report& report) {
  const std::vector<std::string> lines = tolerance_lines(report);
  if (!lines.empty()) out << "\nTolerances, set by the vendor:\n";
  for (const std::string& line : lines) out << "  " << line << "\n";
}

void print_complaints(std::ostream& out, const Report& report, const Style& style) {
  for (const std::string& remark : report.remarks) out << "\nwarning: " << remark << "\n";
  if (report.complaints.empty()) return;
  const std::string title = report.options.verify
                                ? style.bad("The declarations do not hold:")
                                : "The declarations do not hold (--verify makes this a failure):";
  out << "\n" << title << "\n";
  for (const std::string& complaint : report.complaints) out << "  " << complaint << "\n";
}

const char* plural(size_t count) { return count == 1 ? "" : "s"; }

}  // namespace

std::string Style::good(const std::string& text) const { return paint(colours, "32", text); }
std::string Style::bad(const std::string& text) const { return paint(colours, "31;1", text); }
std::string Style::quiet(const std::string& text) const { return paint(colours, "2", text); }
std::string Style::strong(const std::string& text) const { return paint(colours, "1", text); }

void print_header(std::ostream& out, const Report& report, size_t total, const Style& style) {
  const Options& o = report.options;
  if (report.plugin) {
    const Description& p = *report.plugin;
    out << style.strong(words(p.name, " ", p.version)) << " by " << p.vendor << ", ABI " << p.abi;
    if (o.device < p.devices.size()) out << ", device " << o.device << ": " << p.devices[o.device].name;
    out << "\n";
  }
  out << style.quiet(words(o.plugin, "\nsha256 ", report.digest)) << "\n";
  out << total << " case" << plural(total) << ", seed " << o.seed << (o.quick ? ", quick" : "");
  if (o.sample > 1) out << ", one in " << o.sample << " above level 0";
  if (o.repeat > 1) out << ", " << o.repeat << " rounds";
  if (o.round > 0) out << ", from round " << o.round;
  out << (report.declared.file.empty() ? ", nothing declared by the vendor"
                                       : ", declared: " + report.declared.file);
  if (report.declared.determinism != Determinism::undeclared)
    out << ", determinism " << name(report.declared.determinism);
  if (report.resumed > 0) out << ", " << report.resumed << " resumed";
  out << "\n\n";
}

void print_line(std::ostream& out, const CaseResult& result, const Style& style) {
  const std::string verdict = name(result.verdict);
  const std::string padded = verdict + std::string(verdict.size() < 17 ? 17 - verdict.size() : 1, ' ');
  const bool bad = counts_as_failure(result.verdict, false);
  out << (bad                                 ? style.bad(padded)
          : result.verdict == Verdict::passed ? style.good(padded)
                                              : padded)
      << result.name;
  if (result.round > 0) out << style.quiet(words("  round ", result.round));
  if (result.milliseconds > 0) out << style.quiet("  " + milliseconds(result.milliseconds));
  out << "\n";
}

void print_trouble(std::ostream& out, const Report& report, const CaseResult& result, const Style& style) {
  const char* const margin = "    ";
  constexpr size_t told = 4;  // the rest is in the JSON report
  const auto& failures = result.finding.failures;
  for (size_t i = 0; i < std::min(told, failures.size()); ++i) indent(out, failures[i], margin);
  if (failures.size() > told)
    out << margin << style.quiet(words("and ", failures.size() - told, " more")) << "\n";
  for (const std::string& story : result.finding.warnings) indent(out, "warning: " + story, margin);
  if (!result.finding.eased.empty()) indent(out, result.finding.eased, margin);
  if (!result.finding.reason.empty()) indent(out, result.finding.reason, margin);
  if (!result.declared.empty()) indent(out, "declared: " + declared_text(result), margin);
  if (!counts_as_failure(result.verdict, report.options.verify)) return;
  if (!result.output.empty()) {
    out << margin << style.quiet("what it wrote to standard error:") << "\n";
    indent(out, result.output, "      ");
  }
  if (result.verdict != Verdict::not_run)
    out << margin << style.strong("again: ") << reproduce_line(report, result) << "\n";
}

bool noteworthy(const CaseResult& result) {
  switch (result.verdict) {
    case Verdict::passed:
    case Verdict::skipped:
    case Verdict::unsupported:
    case Verdict::unexplained:
      return !result.finding.warnings.empty() || !result.finding.eased.empty();
    default:
      return true;
  }
}

void print_summary(std::ostream& out, const Report& report, const Style& style) {
  std::map<std::string, Tally> groups;
  Tally all;
  size_t width = 0;
  for (const CaseResult& result : report.results) {
    const std::string group = group_of(result);
    ++groups[group][result.verdict];
    ++all[result.verdict];
    width = std::max(width, group.size());
  }
  out << "\n";
  for (const auto& [group, tally] : groups) {
    out << "  " << std::left << std::setw(static_cast<int>(width) + 2) << group << tally_text(tally, style)
        << "\n";
  }
  print_gaps(out, report, style);
  print_expected_failures(out, report);
  print_tolerances(out, report);
  print_complaints(out, report, style);
  print_figures(out, report.performance, style);
  out << "\n"
      << tally_text(all, style) << " in " << std::fixed << std::setprecision(1) << report.seconds << " s. ";
  if (report.options.quick && report.seconds > quick_s)
    out << style.quiet("That is more than the minute that --quick promises. ");
  if (report.executed() == 0) {
    out << style.bad("No case was executed, which is a failure.") << "\n";
  } else if (report.passed()) {
    out << style.good("The plugin conforms.") << "\n";
  } else {
    out << style.bad("The plugin does not conform.") << "\n";
  }
}

}  // namespace tenon::conform
