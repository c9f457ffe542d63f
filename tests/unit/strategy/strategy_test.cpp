// SPDX-License-Identifier: Apache-2.0
// Strategies from TOML and back: what is named is set, what is wrong is told with its place.
#include <tenon/strategy.hpp>

#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

using namespace tenon;

namespace {

Strategy read(std::string_view text) {
  auto strategy = Strategy::parse(text);
  REQUIRE_MESSAGE(strategy.ok(), strategy.message());
  return std::move(strategy).take();
}

void refuses(std::string_view text, const char* words) {
  const auto strategy = Strategy::parse(text, "s.toml");
  REQUIRE_FALSE(strategy.ok());
  CHECK(strategy.code() == TN_INVALID);
  CHECK_MESSAGE(std::string(strategy.message()).find(words) != std::string::npos, strategy.message());
}

}  // namespace

TEST_CASE("strategy: nothing said is the defaults") {
  CHECK(read("").text() == Strategy{}.text());
  CHECK(read("[fusion]\n").fusion.elementwise);
}

TEST_CASE("strategy: every key sets its member, and the text of it reads back as the same") {
  const Strategy strategy = read(
      "[fusion]\nelementwise = false\npatterns = false\noptimizers = false\noff = [\"gemm_*\"]\n"
      "must_fuse = [[\"a\", \"b\"], [\"c\"]]\nnever_fuse = [\"d\\\"e\"]\nmax_nodes = 12\nmin_gain_us = "
      "1.5\n");
  CHECK_FALSE(strategy.fusion.elementwise);
  CHECK_FALSE(strategy.fusion.patterns);
  CHECK_FALSE(strategy.fusion.optimizers);
  CHECK(strategy.fusion.off == std::vector<std::string>{"gemm_*"});
  CHECK(strategy.fusion.must_fuse == std::vector<std::vector<std::string>>{{"a", "b"}, {"c"}});
  CHECK(strategy.fusion.never_fuse == std::vector<std::string>{"d\"e"});
  CHECK(strategy.fusion.max_nodes == 12);
  CHECK(strategy.fusion.min_gain_ns == 1500);
  CHECK(read(strategy.text()).text() == strategy.text());
}

TEST_CASE("strategy: a whole number is a time, too") {
  CHECK(read("[fusion]\nmin_gain_us = 2").fusion.min_gain_ns == 2000);
}

TEST_CASE("strategy: an unknown key is refused with the nearest") {
  refuses("[fusion]\nmust_fuze = []\n", "s.toml: unknown key 'fusion.must_fuze' (did you mean 'must_fuse'?)");
  refuses("[fushion]\n", "unknown key 'fushion' (did you mean 'fusion'?)");
}

TEST_CASE("strategy: a value of another kind is refused with what it must be") {
  refuses("fusion = 1\n", "fusion = 1 is not a table: write [fusion]");
  refuses("[fusion]\nelementwise = 1\n", "fusion.elementwise = 1 is not true or false");
  refuses("[fusion]\nmax_nodes = 0\n", "fusion.max_nodes = 0 is not a whole number from 1 on");
  refuses("[fusion]\nmin_gain_us = -1\n", "fusion.min_gain_us = -1 is not a time in microseconds");
  refuses("[fusion]\noff = \"x\"\n", "is not a list of names in double quotes");
  refuses("[fusion]\nmust_fuse = [\"a\"]\n", "is not a list of lists of names");
  refuses("[fusion\n", "s.toml");
}

TEST_CASE("strategy: is read from a file, which must be there") {
  const test::TempFolder folder;
  const std::string path = folder.write("s.toml", "[fusion]\nmax_nodes = 7\n");
  const auto strategy = Strategy::load(path);
  REQUIRE_MESSAGE(strategy.ok(), strategy.message());
  CHECK(strategy->fusion.max_nodes == 7);
  CHECK(Strategy::load(path + ".not").code() == TN_NOT_FOUND);
}
