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

TEST_CASE("report: JUnit fails whenever the run fails, and keeps unsupported and expected failures apart") {
  Report report = sample();
  report.results = {result("copy: fine", Verdict::passed),
                    result("copy: odd", Verdict::expected_failure, Outcome::failed),
                    result("promise: none", Verdict::unsupported, Outcome::unsupported)};
  report.results[1].declared = "until driver 5.2";
  report.results[1].expires = "2026-12-31";
  report.complaints = {"an entry expired"};
  CHECK(has(report_junit(report), "failures=\"0\" skipped=\"2\""));
  CHECK(has(report_junit(report), "\"expected failure: until driver 5.2 (until 2026-12-31)\""));
  CHECK(has(report_junit(report), "\"unsupported: "));
  report.options.verify = true;
  CHECK(has(report_junit(report), "tests=\"4\" failures=\"1\""));
  CHECK(has(report_junit(report), "<failure message=\"an entry expired\"/>"));
  report.complaints.clear();
  report.results = {result("copy: fine", Verdict::skipped, Outcome::skipped)};
  CHECK(has(report_junit(report), "<failure message=\"no case was executed\"/>"));
}

TEST_CASE("report: what a plugin writes cannot break the XML") {
  Report report = sample();
  report.results[1].output = "\xff\xfe \x01 <b>]]>";
  const std::string xml = report_junit(report);
  CHECK(has(xml, "&lt;b&gt;]]&gt;"));
  CHECK_FALSE(has(xml, "\xff"));
  CHECK_FALSE(has(xml, "\x01"));
}

TEST_CASE("report: the page carries the report and lets nothing out of it") {
  Report report = sample();
  report.results[1].output = "</script><script>alert(1)</script><!--";
  const std::string page = report_html(report);
  CHECK(has(page, "<!doctype html>"));
  CHECK(has(page, "copy: fine"));
  CHECK(has(page, "\\u003c/script>\\u003cscript>alert(1)"));
  CHECK_FALSE(has(page, "<script>alert"));
  CHECK_FALSE(has(page, "@REPORT@"));
  CHECK_FALSE(has(page, "@page."));
  for (const char* elsewhere : {"http://", "https://", "src=\"", "@import", "url("})
    CHECK_FALSE(has(page, elsewhere));
}

TEST_CASE("report: under --verify declarations that do not hold fail the run") {
  Report report = sample();
  report.results = {result("copy: fine", Verdict::passed)};
  report.complaints = {"foo.toml: [[unsupported]] 'x' excuses nothing"};
  CHECK(report.passed());
  report.options.verify = true;
  CHECK_FALSE(report.passed());
  std::ostringstream out;
  print_summary(out, report, Style{});
  CHECK(has(out.str(), "'x' excuses nothing"));
  CHECK(has(out.str(), "does not conform"));
}

TEST_CASE("report: an expected failure stands apart from the gaps, with its date") {
  Report report = sample();
  report.results.push_back(result("copy: odd", Verdict::expected_failure, Outcome::failed));
  report.results.back().declared = "until driver 5.2";
  report.results.back().expires = "2026-12-31";
  std::ostringstream out;
  print_summary(out, report, Style{});
  CHECK(has(out.str(),
            "Expected failures, declared by the vendor:\n  copy: odd: until driver 5.2 (until 2026-12-31)"));
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
  report.options.program = "./my build/tenon";
  report.options.verify = true;
  report.options.deadline_s = 4;
  report.results[0].round = 3;
  CHECK(reproduce_line(report, report.results[0]) ==
        "'./my build/tenon' conform ./tenon-foo.so --filter 'copy: fine' --seed 7 --round 3 --quick --verify "
        "--device 2 "
        "--deadline 4 --option threads=2");
}

TEST_CASE("report: a case that fails in company only is repeated with its group") {
  Report report = sample();
  report.results[1].in_company = true;
  CHECK(reproduce_line(report, report.results[1]) ==
        "tenon conform ./tenon-foo.so --filter 'copy: *' --seed 7");
  report.options.together = 3;
  report.results[1].name = "fill: every pattern width repeats and touches nothing else";
  const std::string line = reproduce_line(report, report.results[1]);
  CAPTURE(line);
  CHECK(has(line, "--filter 'fill: *'"));
  CHECK(has(line, " --seed 7 --together 3"));
  size_t filters = 0;
  for (size_t at = line.find("--filter"); at != std::string::npos; at = line.find("--filter", at + 1))
    ++filters;
  CHECK(filters == 3);
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

TEST_CASE("report: a vendor's tolerance shows in every form, with its reason and who needed it") {
  Report report = sample();
  report.began = "2026-05-31T12:00:00Z";
  report.declared.file = "foo.capabilities.toml";
  report.declared.determinism = Determinism::bitwise;
  report.declared.tolerances = {{.op = "exp",
                                 .dtype = "f16",
                                 .slack = {.factor = 4, .ulps = 0},
                                 .reason = "a table <of> 256",
                                 .expires = "2027-06-30"}};
  report.remarks = {"somebody should look"};
  for (const char* eased : {"", "2 elements need it"}) {
    report.results.push_back(result("op exp: f16 agrees", Verdict::passed));
    report.results.back().op = "exp";
    report.results.back().dtype = "f16";
    report.results.back().finding.eased = eased;
  }
  const std::string line =
      "exp.f16: 4 times the usual (until 2027-06-30): a table <of> 256; 1 of 2 cases need it";
  CHECK((tolerance_lines(report) == std::vector{line}));
  CHECK_FALSE(noteworthy(report.results[report.results.size() - 2]));
  CHECK(noteworthy(report.results.back()));
  std::ostringstream text;
  print_header(text, report, 1, Style{});
  print_trouble(text, report, report.results.back(), Style{});
  print_summary(text, report, Style{});
  CHECK(has(text.str(), "determinism bitwise"));
  CHECK(has(text.str(), "Tolerances, set by the vendor:\n  " + line));
  CHECK(has(text.str(), "    2 elements need it"));
  CHECK(has(text.str(), "warning: somebody should look"));
  const auto json = nlohmann::json::parse(report_json(report));
  CHECK(json["determinism"] == "bitwise");
  CHECK(json["tolerances"][0]["op"] == "exp");
  CHECK(json["tolerances"][0]["factor"] == 4);
  CHECK(json["tolerances"][0]["needed"] == 1);
  CHECK(json["remarks"][0] == "somebody should look");
  CHECK(json["cases"][4]["finding"]["eased"] == "2 elements need it");
  const std::string xml = report_junit(report);
  CHECK(has(xml,
            "<property name=\"tolerance exp.f16\" value=\"4 times the usual (until 2027-06-30): a table "
            "&lt;of&gt; 256; "
            "1 of 2 cases need it\"/>"));
  CHECK(has(xml, "<property name=\"determinism\" value=\"bitwise\"/>"));
  CHECK(has(xml, "<system-out>2 elements need it</system-out>"));
  CHECK(has(report_html(report), "a table \\u003cof> 256"));
}

TEST_CASE("report: a run that executed nothing has not passed") {
  Report report = sample();
  report.results = {result("copy: fine", Verdict::skipped, Outcome::skipped)};
  CHECK_FALSE(report.passed());
  std::ostringstream out;
  print_summary(out, report, Style{});
  CHECK(has(out.str(), "No case was executed"));
}

TEST_CASE("report: gaps are told once for each reason, or once for each kind that nobody explains") {
  Report report;
  const auto gap = [&](const char* tag, Verdict verdict, const char* declared) {
    report.results.push_back(result("op: case", verdict, Outcome::unsupported));
    report.results.back().finding.tag = tag;
    report.results.back().finding.reason = "supports says no";
    report.results.back().declared = declared;
  };
  for (const char* dtype : {"f16", "f32", "f64", "bf16"}) {
    gap((std::string("op.conv2d.") + dtype).c_str(), Verdict::unsupported, "not yet");
    gap((std::string("op.exp.") + dtype).c_str(), Verdict::unexplained, "");
  }
  gap("op.max_pool.f32", Verdict::unsupported, "not yet");
  gap("stream.promise", Verdict::unexplained, "");
  const auto gaps = gaps_of(report);
  REQUIRE(gaps.size() == 3);
  CHECK(gaps[0].cases == 5);
  CHECK(gaps[0].reason == "not yet");
  CHECK(gaps[1].cases == 4);
  CHECK((gaps[0].kinds == std::vector<std::string>{"op.conv2d.*", "op.max_pool.f32"}));
  CHECK((gaps[1].kinds == std::vector<std::string>{"op.exp.*"}));
  CHECK((gaps[2].kinds == std::vector<std::string>{"stream.promise"}));
  std::ostringstream out;
  print_gaps(out, report, Style{});
  CHECK(has(out.str(), "op.conv2d.*, op.max_pool.f32 (5 cases): not yet"));
  CHECK(has(out.str(), "match = \"op.exp.*\""));
  report.results.push_back(result("op: case", Verdict::passed));  // one pattern for all would now be wrong
  report.results.back().finding.tag = "op.exp.i32";
  CHECK(gaps_of(report)[1].kinds.size() == 4);
}
