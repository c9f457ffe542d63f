// SPDX-License-Identifier: Apache-2.0
// report_figures.cpp: the figures of --perf for a person: the middle first, then how far to trust it.
#include "conformance/report.hpp"

#include "conformance/words.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>

namespace tenon::conform {

namespace {

// Three digits that count.
std::string digits(double value) {
  const int whole = value > 0 ? static_cast<int>(std::floor(std::log10(value))) + 1 : 3;
  std::ostringstream out;
  out << std::fixed << std::setprecision(std::clamp(3 - whole, 0, 6)) << value;
  return std::move(out).str();
}

const char* title(const std::string& group) {
  if (group == "call") return "What a call costs its thread";
  if (group == "latency") return "Latency";
  if (group == "copy") return "Copies";
  return "Kernels";
}

}  // namespace

std::string figure_text(const Figure& figure) {
  if (!figure.trouble.empty()) return "not measured: " + figure.trouble;
  std::string out = words(digits(figure.median), " ", figure.unit);
  if (figure.percent > 0) out += words(", ", std::lround(figure.percent), " % of ", figure.ceiling);
  return out + words("; ", digits(figure.low), " … ", digits(figure.high), ", ±", digits(figure.spread),
                     " %, ", figure.samples, " samples");
}

void print_figures(std::ostream& out, const Performance& performance, const Style& style) {
  if (!performance.asked) return;
  std::string group;
  out << "\n"
      << style.strong("Performance")
      << style.quiet(" (decides no verdict; median; 10th … 90th percentile, ±deviation)") << "\n";
  if (!performance.remark.empty()) out << "  " << style.bad(performance.remark) << "\n";
  for (const Figure& figure : performance.figures) {
    if (figure.group != group) out << "  " << title(figure.group) << "\n";
    group = figure.group;
    out << "    " << figure.name << ": " << figure_text(figure) << "\n";
  }
}

}  // namespace tenon::conform
