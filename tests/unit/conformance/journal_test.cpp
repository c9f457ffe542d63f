// SPDX-License-Identifier: Apache-2.0
// The journal that --resume reads.
#include "conformance/journal.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace tenon::conform;

TEST_CASE("journal: results come back as they were, and a cut line is passed over") {
  Options options;
  options.seed = 4711;
  const Journal journal(options, "unit-test-of-the-journal");
  REQUIRE_FALSE(journal.file().empty());
  journal.clear();
  CaseResult result;
  result.name = "copy: \"quotes\" and → arrows";
  result.round = 2;
  result.finding.outcome = Outcome::failed;
  result.finding.failures = {"one", "two"};
  result.finding.drawn = 0xfedcba9876543210;
  result.milliseconds = 1.5;
  journal.append(result);
  std::ofstream(journal.file(), std::ios::app) << "{\"name\": \"cut o";
  const auto read = journal.read();
  REQUIRE(read.size() == 1);
  CHECK(read[0].name == result.name);
  CHECK(read[0].round == 2);
  CHECK(read[0].finding.failures == result.finding.failures);
  CHECK(read[0].finding.drawn == result.finding.drawn);
  journal.clear();
  CHECK(journal.read().empty());
}

TEST_CASE("journal: another seed, size, option or library has another journal") {
  Options one, other;
  other.seed = 2;
  Options quick;
  quick.quick = true;
  Options profile;
  profile.options["profile"] = "ascend";
  const std::string file = Journal(one, "0123456789abcdef").file();
  CHECK(Journal(other, "0123456789abcdef").file() != file);
  CHECK(Journal(quick, "0123456789abcdef").file() != file);
  CHECK(Journal(profile, "0123456789abcdef").file() != file);
  CHECK(Journal(one, "fedcba9876543210").file() != file);
  CHECK(Journal(Options{}, "0123456789abcdef").file() == file);
}
