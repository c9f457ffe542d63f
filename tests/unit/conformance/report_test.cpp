// SPDX-License-Identifier: Apache-2.0
// One run, told in every form.
#include "conformance/report.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <sstream>

using namespace tenon::conform;

namespace {

CaseResult result(const char* name, Verdict verdict, Outcome outcome = Outcome::passed) {
  CaseResult out;
  out.name = name;
  out.verdict = verdict;
  out.finding.outcome = outcome;
  return out;
}

Report sample() {
  Report out;
  out.options.plugin = "./tenon-foo.so";
  out.options.seed = 7;
  out.results.push_back(result("copy: fine", Verdict::passed));
  out.results.push_back(result("copy: <broken> & \"odd\"", Verdict::failed, Outcome::failed));
  out.results.back().finding.failures = {"expected 1, got 2", "second"};
  out.results.push_back(result("promise: none", Verdict::unexplained, Outcome::unsupported));
  out.results.back().finding.tag = "stream.promise";
  out.results.back().finding.reason = "the plugin has no promise";
  return out;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("report: JUnit is well-formed and counts what fails") {
  const std::string xml = report_junit(sample());
  CHECK(has(xml, "tests=\"3\" failures=\"1\" skipped=\"1\""));
  CHECK(has(xml, "copy: &lt;broken&gt; &amp; &quot;odd&quot;"));
  CHECK(has(xml, "expected 1, got 2"));
  CHECK(has(xml, "again: tenon conform"));
}

TEST_CASE("report: JSON parses and holds every verdict") {
  const auto json = nlohmann::json::parse(report_json(sample()));
  CHECK(json["passed"] == false);
  CHECK(json["executed"] == 3);
  CHECK(json["verdicts"]["failed"] == 1);
  CHECK(json["cases"][1]["finding"]["failures"][0] == "expected 1, got 2");
}

TEST_CASE("report: the line that repeats a case names everything that matters") {
  Report report = sample();
  report.options.quick = true;
  report.options.device = 2;
  report.options.options["threads"] = "2";
  CHECK(reproduce_line(report, report.results[0]) ==
        "tenon conform ./tenon-foo.so --filter 'copy: fine' --seed 7 --quick --device 2 --option threads=2");
}

TEST_CASE("report: a file name with a space is quoted in the line that repeats a case") {
  Report report = sample();
  report.options.plugin = "/my folder/it's.so";
  CHECK(has(reproduce_line(report, report.results[0]), "conform '/my folder/it'\\''s.so' --filter"));
}

TEST_CASE("report: the summary names gaps and their remedy, and colours only where asked") {
  std::ostringstream plain, painted;
  print_summary(plain, sample(), Style{.colours = false});
  print_summary(painted, sample(), Style{.colours = true});
  CHECK(has(plain.str(), "stream.promise (1 case): the plugin has no promise"));
  CHECK(has(plain.str(), "does not conform"));
  CHECK_FALSE(has(plain.str(), "\033"));
  CHECK(has(painted.str(), "\033[31;1m"));
}

TEST_CASE("report: a run that executed nothing has not passed") {
  Report report = sample();
  report.results = {result("copy: fine", Verdict::skipped, Outcome::skipped)};
  CHECK_FALSE(report.passed());
  std::ostringstream out;
  print_summary(out, report, Style{});
  CHECK(has(out.str(), "No case was executed"));
}
