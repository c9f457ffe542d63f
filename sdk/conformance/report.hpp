// SPDX-License-Identifier: Apache-2.0
// report.hpp: one run, told to a person and to machines.
//
// Invariant: every form holds the same verdicts, reasons and reproduce lines.
#pragma once

#include "conformance/runner.hpp"

#include <ostream>
#include <string>

namespace tenon::conform {

// Colours where `colours`; nothing else changes. [any-thread; does not block; cannot fail]
struct Style {
  bool colours = false;
  std::string good(const std::string& text) const;
  std::string bad(const std::string& text) const;
  std::string quiet(const std::string& text) const;
  std::string strong(const std::string& text) const;
};

void print_header(std::ostream& out, const Report& report, size_t total, const Style& style);
// Whether a person wants to hear of it: a failure, a surprise or a warning.
bool noteworthy(const CaseResult& result);
// What went wrong with one case and how to repeat it.
void print_trouble(std::ostream& out, const Report& report, const CaseResult& result, const Style& style);
// One line for a pipe: "passed   copy: …   12 ms".
void print_line(std::ostream& out, const CaseResult& result, const Style& style);
// Verdicts by group, what the plugin lacks, and the closing sentence.
void print_summary(std::ostream& out, const Report& report, const Style& style);

// What the plugin lacks: cases with one declared reason, or, where nobody explains, of one kind ("op.conv2d").
struct Gap {
  std::vector<std::string> tags{};
  std::vector<std::string> kinds{};  // of the tags, as `match` of an entry would name them: "op.conv2d.*"
  size_t cases = 0;
  bool explained = false;
  std::string reason{};  // the vendor's, or what the case said
};
std::vector<Gap> gaps_of(const Report& report);
// The gaps, each with its reason or the remedy.
void print_gaps(std::ostream& out, const Report& report, const Style& style);

// "exp.f16: 4 times the usual (until 2027-06-30): a table; 2 of 3 cases need it". [any-thread; cannot fail]
std::vector<std::string> tolerance_lines(const Report& report);

// "12.3 GB/s, 98 % of …; 11.9 … 12.6, ±1.2 %, 25 samples", or why there is none.
std::string figure_text(const Figure& figure);
// The figures of --perf, group by group.
void print_figures(std::ostream& out, const Performance& performance, const Style& style);

std::string report_json(const Report& report);
std::string report_junit(const Report& report);
// One page that asks no other for anything.
std::string report_html(const Report& report);

}  // namespace tenon::conform
