// SPDX-License-Identifier: Apache-2.0
// capabilities.toml: read strictly, held against what happened.
#include "conformance/capabilities.hpp"

#include <doctest/doctest.h>

using namespace tenon::conform;

namespace {

constexpr const char* good = R"(
[plugin]
name = "foo"
[[unsupported]]
match = "stream.promise"
reason = "no host-signalled events"
permanent = true
[[expected_failure]]
match = "copy: odd *"
reason = "DMA needs 4-byte offsets"
expires = 2026-12-31
)";

CaseResult result(const std::string& name, Outcome outcome, const std::string& tag = "") {
  CaseResult out;
  out.name = name;
  out.finding.outcome = outcome;
  out.finding.tag = tag;
  if (outcome == Outcome::failed) out.finding.failures.push_back("it broke");
  return out;
}

Verdict verdict(CaseResult out, const std::string& today = "2026-01-01") {
  const auto declared = parse_capabilities(good, "foo.toml");
  REQUIRE(declared.ok());
  decide(out, *declared, today);
  return out.verdict;
}

std::string refusal(const std::string& text) {
  const auto parsed = parse_capabilities(text, "foo.toml");
  REQUIRE_FALSE(parsed.ok());
  return std::string(parsed.message());
}

}  // namespace

TEST_CASE("capabilities: both lists are read") {
  const auto parsed = parse_capabilities(good, "foo.toml");
  REQUIRE(parsed.ok());
  CHECK(parsed->plugin == "foo");
  REQUIRE(parsed->unsupported.size() == 1);
  CHECK(parsed->unsupported[0].match == "stream.promise");
  REQUIRE(parsed->expected_failures.size() == 1);
  CHECK(parsed->expected_failures[0].expires == "2026-12-31");
}

TEST_CASE("capabilities: faults are options of the plugin, and reach the cases") {
  const auto parsed = parse_capabilities(std::string(good) + "[faults]\nlost = \"lost_at=4\"\n", "foo.toml");
  REQUIRE(parsed.ok());
  const Judging judging = judging_of(*parsed, "2026-01-01");
  REQUIRE(judging.faults.size() == 1);
  CHECK(judging.faults.at("lost") == Fault{"lost_at", "4"});
  CHECK(refusal("[plugin]\nname = \"foo\"\n[faults]\nfire = \"a=1\"\n").find("known are lost") !=
        std::string::npos);
  for (const char* order : {"\"lost_at\"", "\"=4\"", "\"lost_at=\"", "4"}) {
    INFO(order);
    CHECK(refusal(std::string("[plugin]\nname = \"foo\"\n[faults]\nlost = ") + order)
              .find("an option of the plugin") != std::string::npos);
  }
}

TEST_CASE("capabilities: a declared gap is unsupported, another is unexplained") {
  CHECK(verdict(result("promise: a", Outcome::unsupported, "stream.promise")) == Verdict::unsupported);
  CHECK(verdict(result("strided: a", Outcome::unsupported, "stream.copy_strided")) == Verdict::unexplained);
}

TEST_CASE("capabilities: an expected failure is one until its date") {
  CHECK(verdict(result("copy: odd offsets", Outcome::failed)) == Verdict::expected_failure);
  CHECK(verdict(result("copy: odd offsets", Outcome::failed), "2026-12-31") == Verdict::expected_failure);
  CHECK(verdict(result("copy: odd offsets", Outcome::failed), "2027-01-01") == Verdict::failed);
  CHECK(verdict(result("copy: even offsets", Outcome::failed)) == Verdict::failed);
}

TEST_CASE("capabilities: a declared case that passes is an unexpected pass, by name and by tag") {
  CHECK(verdict(result("copy: odd offsets", Outcome::passed)) == Verdict::unexpected_pass);
  CHECK(verdict(result("promise: a", Outcome::passed, "stream.promise")) == Verdict::unexpected_pass);
  CHECK(verdict(result("copy: even offsets", Outcome::passed)) == Verdict::passed);
}

TEST_CASE("capabilities: a gap with a date is unsupported until then") {
  const auto declared = parse_capabilities(
      "[plugin]\nname = \"foo\"\n[[unsupported]]\nmatch = \"op:conv2d\"\nreason = \"not yet\"\nexpires = "
      "2026-06-30",
      "foo.toml");
  REQUIRE(declared.ok());
  CaseResult before = result("op: conv2d", Outcome::unsupported, "op:conv2d"), after = before;
  decide(before, *declared, "2026-06-30");
  CHECK(before.verdict == Verdict::unsupported);
  CHECK(before.expires == "2026-06-30");
  decide(after, *declared, "2026-07-01");
  CHECK(after.verdict == Verdict::unexplained);
  REQUIRE(after.finding.warnings.size() == 1);
  CHECK(after.finding.warnings[0].find("until 2026-06-30: not yet") != std::string::npos);
}

TEST_CASE("capabilities: an entry that is still good speaks before one past its date") {
  const auto declared = parse_capabilities(
      "[plugin]\nname = \"foo\"\n"
      "[[expected_failure]]\nmatch = \"copy: *\"\nreason = \"old\"\nexpires = 2025-01-01\n"
      "[[expected_failure]]\nmatch = \"copy: odd *\"\nreason = \"new\"\nexpires = 2027-01-01\n",
      "foo.toml");
  REQUIRE(declared.ok());
  CaseResult broken = result("copy: odd offsets", Outcome::failed);
  decide(broken, *declared, "2026-01-01");
  CHECK(broken.verdict == Verdict::expected_failure);
  CHECK(broken.declared == "new");
}

TEST_CASE("capabilities: an entry past its date is told, whether or not anything matches it") {
  const auto declared = parse_capabilities(good, "foo.toml");
  REQUIRE(declared.ok());
  CHECK(audit(*declared, {}, "2026-12-31", false).empty());
  const auto told = audit(*declared, {}, "2027-01-01", false);
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("[[expected_failure]] 'copy: odd *' expired on 2026-12-31") != std::string::npos);
}

TEST_CASE("capabilities: an entry that excuses nothing is told after a complete run only") {
  const auto declared = parse_capabilities(good, "foo.toml");
  REQUIRE(declared.ok());
  const std::vector<CaseResult> results{result("copy: odd offsets", Outcome::failed)};
  CHECK(audit(*declared, results, "2026-01-01", false).empty());
  const auto told = audit(*declared, results, "2026-01-01", true);
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("[[unsupported]] 'stream.promise' excuses nothing") != std::string::npos);
}

TEST_CASE("capabilities: declaring something unsupported does not excuse a failure of it") {
  CHECK(verdict(result("promise: a", Outcome::failed, "stream.promise")) == Verdict::failed);
}

TEST_CASE("capabilities: only --verify makes gaps and unexpected passes fail") {
  for (const Verdict lenient : {Verdict::unexplained, Verdict::unexpected_pass}) {
    CHECK_FALSE(counts_as_failure(lenient, false));
    CHECK(counts_as_failure(lenient, true));
  }
  CHECK_FALSE(counts_as_failure(Verdict::unsupported, true));
  CHECK_FALSE(counts_as_failure(Verdict::expected_failure, true));
  CHECK(counts_as_failure(Verdict::failed, false));
  CHECK(counts_as_failure(Verdict::not_run, false));
}

TEST_CASE("capabilities: what is misspelt or missing is told with its place") {
  CHECK(refusal("[plugin]\nname = \"a\"\n[[unsuported]]\nmatch = \"x\"\nreason = \"y\"").find("unsuported") !=
        std::string::npos);
  CHECK(refusal("[plugin]\nname = \"a\"\n[[unsupported]]\nmatch = \"x\"").find("'reason'") !=
        std::string::npos);
  CHECK(refusal("[plugin]\nname = \"a\"\n[[expected_failure]]\nmatch = \"x\"\nreason = \"y\"")
            .find("'expires'") != std::string::npos);
  CHECK(refusal("[plugin]\nname = \"a\"\n[[unsupported]]\nmatch = \"x\"\nreason = \"y\"\nexpires = \"soon\"")
            .find("'expires' is no date") != std::string::npos);
  CHECK(refusal("[[unsupported]]\nmatch = \"x\"\nreason = \"y\"").find("[plugin]") != std::string::npos);
  CHECK(refusal("[plugin\n").find("foo.toml:") != std::string::npos);
}

TEST_CASE("capabilities: a gap has its date, or says that it is for good") {
  const std::string gap = "[plugin]\nname = \"a\"\n[[unsupported]]\nmatch = \"x.y\"\nreason = \"z\"\n";
  CHECK(refusal(gap) ==
        "foo.toml:3: [[unsupported]] 'x.y' has neither 'expires' nor 'permanent': write expires = 2026-12-31 "
        "for a gap that will be closed, permanent = true for one that never will");
  CHECK(parse_capabilities(gap + "permanent = true", "foo.toml").ok());
  CHECK(parse_capabilities(gap + "expires = 2027-01-01", "foo.toml").ok());
  CHECK(refusal(gap + "permanent = false").find("'permanent' is true") != std::string::npos);
  CHECK(refusal(gap + "permanent = true\nexpires = 2027-01-01").find("without 'expires'") !=
        std::string::npos);
  CHECK(
      refusal("[plugin]\nname = \"a\"\n[[expected_failure]]\nmatch = \"x\"\nreason = \"y\"\npermanent = true")
          .find("unknown key 'permanent'") != std::string::npos);
}

TEST_CASE("capabilities: what has another form is told with its file, its entry and what to write") {
  CHECK(refusal("[plugin]\nname = \"a\"\n[unsupported]\nmatch = \"x\"") ==
        "foo.toml:3: 'unsupported' is no list of tables: write [[unsupported]] above each entry");
  CHECK(refusal("unsupported = [\"x\"]\n[plugin]\nname = \"a\"") ==
        "foo.toml:1: an entry of 'unsupported' is no table: write [[unsupported]] above each entry");
  CHECK(refusal("[plugin]\nname = 7")
            .find("foo.toml:1: 'name' is missing, empty or not a string: write name = ") == 0);
  CHECK(refusal("{\"plugin\": 1}").find("foo.toml:1: this is no TOML: ") == 0);
}

namespace {

// A file with one tolerance, whose lines are given.
std::string with_tolerance(const std::string& lines) {
  return "[plugin]\nname = \"foo\"\n[[tolerance]]\n" + lines;
}
constexpr const char* told_why = "reason = \"a table\"\nexpires = 2026-12-31\n";

CaseResult op_result(const char* op, const char* dtype, Outcome outcome, const char* eased = "") {
  CaseResult out = result(std::string("op ") + op + ": " + dtype + " agrees", outcome);
  out.op = op;
  out.dtype = dtype;
  out.finding.eased = eased;
  return out;
}

}  // namespace

TEST_CASE("capabilities: tolerances count until their date") {
  const auto declared = parse_capabilities(
      with_tolerance(std::string("op = \"exp\"\ndtype = \"f16\"\nfactor = 4\n") + told_why) +
          "[[tolerance]]\nop = \"floor\"\ndtype = \"f32\"\nulp = 1.5\nreason = \"x\"\nexpires = 2027-12-31\n",
      "foo.toml");
  REQUIRE_MESSAGE(declared.ok(), declared.message());
  const Judging now = judging_of(*declared, "2026-12-31"), later = judging_of(*declared, "2027-01-01");
  CHECK((now.slack.at("exp.f16") == Slack{.factor = 4, .ulps = 0}));
  CHECK((now.slack.at("floor.f32") == Slack{.factor = 1, .ulps = 1.5}));
  CHECK(later.slack.size() == 1);
  CHECK(told(now.slack.at("exp.f16")) == "4 times the usual");
  CHECK(told(now.slack.at("floor.f32")) == "1.5 ULP");
}

TEST_CASE("capabilities: a tolerance without a reason, a date or a meaning is refused") {
  const auto refused = [](const std::string& lines, const char* why) {
    CAPTURE(lines);
    CHECK_MESSAGE(refusal(with_tolerance(lines)).find(why) != std::string::npos,
                  refusal(with_tolerance(lines)));
  };
  const std::string exp = "op = \"exp\"\ndtype = \"f16\"\n", good_end = told_why;
  refused(exp + "factor = 4\nexpires = 2026-12-31\n", "'reason'");
  refused(exp + "factor = 4\nreason = \"\"\nexpires = 2026-12-31\n", "'reason'");
  refused(exp + "factor = 4\nreason = \"x\"\n", "'expires'");
  refused(exp + good_end, "'factor' (times the usual) or 'ulp'");
  refused(exp + "factor = 4\nulp = 4\n" + good_end, "one of them");
  refused(exp + "factor = 1\n" + good_end, "no number above 1");
  refused(exp + "factor = inf\n" + good_end, "no number above 1");
  refused(exp + "factor = \"4\"\n" + good_end, "no number above 1");
  refused(exp + "ulp = 0\n" + good_end, "no number above 0");
  refused(exp + "ulp = nan\n" + good_end, "no number above 0");
  refused(exp + "factor = 4\nmatch = \"x\"\n" + good_end, "unknown key 'match'");
  refused("op = \"expo\"\ndtype = \"f16\"\nfactor = 4\n" + good_end, "'expo' is no op");
  refused("op = \"all_reduce\"\ndtype = \"f16\"\nfactor = 4\n" + good_end, "'all_reduce' is no op");
  refused("op = \"exp\"\ndtype = \"i32\"\nfactor = 4\n" + good_end, "no case of dtype 'i32'");
  refused("op = \"add\"\ndtype = \"i32\"\nulp = 4\n" + good_end, "no float");
  refused("op = \"floor\"\ndtype = \"f32\"\nfactor = 4\n" + good_end, "op 'floor' is exact");
  const std::string once = exp + "factor = 4\n" + good_end;
  refused(once + "[[tolerance]]\n" + once, "twice");
}

TEST_CASE("capabilities: a tolerance past its date is told, and one that nobody needed") {
  const auto declared = parse_capabilities(
      with_tolerance(std::string("op = \"exp\"\ndtype = \"f16\"\nfactor = 4\n") + told_why), "foo.toml");
  REQUIRE(declared.ok());
  const std::string late = "2027-01-01", today = "2026-01-01";
  const std::vector<CaseResult> idle{op_result("exp", "f16", Outcome::passed),
                                     op_result("exp", "f32", Outcome::passed)},
      needed{op_result("exp", "f16", Outcome::passed, "2 elements"),
             op_result("exp", "f16", Outcome::passed)},
      elsewhere{op_result("exp", "f16", Outcome::unsupported)},
      broken{op_result("exp", "f16", Outcome::failed)};
  REQUIRE(audit(*declared, idle, late, false).size() == 1);
  CHECK(audit(*declared, idle, late, false)[0].find("'exp' in f16 expired on 2026-12-31") !=
        std::string::npos);
  CHECK(audit(*declared, idle, today, true).empty());
  REQUIRE(audit(*declared, elsewhere, today, true).size() == 1);
  CHECK(audit(*declared, elsewhere, today, true)[0].find("excuses nothing") != std::string::npos);
  REQUIRE(idle_tolerances(*declared, idle, today).size() == 1);
  CHECK(idle_tolerances(*declared, idle, today)[0].find("1 case was executed, and none needed it") !=
        std::string::npos);
  CHECK(idle_tolerances(*declared, needed, today).empty());
  CHECK(idle_tolerances(*declared, elsewhere, today).empty());
  CHECK(idle_tolerances(*declared, broken, today).empty());
  CHECK(idle_tolerances(*declared, idle, late).empty());
  const auto uses = tolerance_uses(*declared, needed, today);
  REQUIRE(uses.size() == 1);
  CHECK(uses[0].cases == 2);
  CHECK(uses[0].needed == 1);
}

TEST_CASE("capabilities: determinism is one of two words, or not declared") {
  const auto word = [](const std::string& line) {
    return parse_capabilities("[plugin]\nname = \"foo\"\n" + line, "foo.toml");
  };
  CHECK(word("")->determinism == Determinism::undeclared);
  CHECK(word("determinism = \"bitwise\"")->determinism == Determinism::bitwise);
  CHECK(word("determinism = \"varies\"")->determinism == Determinism::varies);
  CHECK(refusal("[plugin]\nname = \"foo\"\ndeterminism = \"mostly\"").find("must be bitwise or varies") !=
        std::string::npos);
  CHECK(refusal("[plugin]\nname = \"foo\"\ndeterminism = true").find("'determinism'") != std::string::npos);
}

TEST_CASE("capabilities: globs match whole names") {
  CHECK(glob("copy: *", "copy: odd"));
  CHECK_FALSE(glob("copy", "copy: odd"));
  CHECK(glob("copy: odd", "copy: odd"));
  CHECK_FALSE(glob("*: even", "copy: odd"));
}
