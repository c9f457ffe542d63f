// SPDX-License-Identifier: Apache-2.0
// What counts as a leak: growth that goes on at one pace, and nothing else.
#include "conformance/footprint.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

using namespace tenon::conform;
using tenon::Status;

namespace {

constexpr uint64_t rounds = 100, least = 1'000;

double growth(const std::vector<uint64_t>& readings) { return steady_growth(readings, rounds, least); }

// The failures of rounds that do `round`.
std::vector<std::string> failures_of(const std::function<Status()>& round) {
  Context t({.plugin = "none", .quick = true}, Random(1));
  return t.finish(leaves_nothing(t, "calls", "give it back", round)).failures;
}

}  // namespace

TEST_CASE("footprint: a few bytes in every round go on at one pace") {
  CHECK(growth({5'000, 9'800, 14'600, 19'400, 24'200, 29'000}) == doctest::Approx(48));
  CHECK(growth({0, 400'000, 830'000, 1'210'000, 1'600'000, 2'000'000}) == doctest::Approx(4'000));
}

TEST_CASE("footprint: what is taken once, or ever more slowly, is no leak") {
  CHECK(growth({5'000, 5'000, 5'000, 5'000, 5'000, 5'000}) == 0);
  CHECK(growth({5'000, 905'000, 905'000, 905'000, 905'000, 905'000}) == 0);  // a pool
  CHECK(growth({0, 80'000, 120'000, 140'000, 150'000, 155'000}) == 0);       // a cache that fills
  CHECK(growth({0, 0, 8'192, 8'192, 8'192, 24'576}) == 0);                   // a vector that doubles
  CHECK(growth({50'000, 52'000, 51'000, 53'000, 52'500, 54'000}) == 0);      // noise
  CHECK(growth({9'000, 9'900, 10'800, 11'700, 12'600, 13'500}) == 0);        // too little to tell
  CHECK(growth({90'000, 70'000, 50'000, 30'000, 10'000, 9'000}) == 0);
}

TEST_CASE("footprint: rounds that keep some of the heap fail, with the figure and the remedy") {
  if (!gauges().heap) return;  // another malloc tells glibc nothing
  CHECK(failures_of([] { return Status(); }).empty());
  std::vector<std::unique_ptr<char[]>> kept;
  kept.reserve(100'000);
  const auto told = failures_of([&]() -> Status {
    kept.push_back(std::make_unique<char[]>(1'000));
    return {};
  });
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("calls leave 10") == 0);  // malloc's own word comes on top
  CHECK(told[0].find("bytes of the heap in every round") != std::string::npos);
  CHECK(told[0].find(": give it back") != std::string::npos);
}

TEST_CASE("footprint: a round that fails ends the case with its own story") {
  const auto told = failures_of([]() -> Status { return {TN_BUSY, "in use"}; });
  REQUIRE(told.size() == 1);
  CHECK(told[0] == "in use");
}
