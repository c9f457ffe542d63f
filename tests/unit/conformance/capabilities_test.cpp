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
            .find("not a date") != std::string::npos);
  CHECK(refusal("[[unsupported]]\nmatch = \"x\"\nreason = \"y\"").find("[plugin]") != std::string::npos);
  CHECK(refusal("[plugin\n").find("foo.toml:") != std::string::npos);
}

TEST_CASE("capabilities: globs match whole names") {
  CHECK(glob("copy: *", "copy: odd"));
  CHECK_FALSE(glob("copy", "copy: odd"));
  CHECK(glob("copy: odd", "copy: odd"));
  CHECK_FALSE(glob("*: even", "copy: odd"));
}
