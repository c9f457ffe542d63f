// SPDX-License-Identifier: Apache-2.0
// What trials are drawn from, and how a failing list gets simpler.
#include "conformance/ops/choices.hpp"

#include <doctest/doctest.h>

#include <numeric>

using namespace tenon::conform;

TEST_CASE("choices: what was drawn is replayed, and cut to the bound asked for") {
  Random random(3);
  Choices drawn(random);
  const int64_t a = drawn.between(5, 90);
  const bool b = drawn.chance(2);
  Choices replayed(drawn.made());
  CHECK(replayed.between(5, 90) == a);
  CHECK(replayed.chance(2) == b);
  CHECK(replayed.below(1000) == 0);  // nothing was recorded for it
  Choices narrow(std::vector<uint64_t>{50});
  CHECK(narrow.below(10) == 9);
}

TEST_CASE("choices: shrinking finds the least list that still fails") {
  const auto least = shrink(
      {40, 93, 17, 5}, [](const auto& list) { return list.size() > 1 && list[1] >= 7; }, 200);
  CHECK(least == std::vector<uint64_t>{0, 7});
}

TEST_CASE("choices: shrinking keeps what fails together") {
  const auto sum = [](const std::vector<uint64_t>& list) {
    return std::accumulate(list.begin(), list.end(), uint64_t{0});
  };
  const auto least = shrink(
      {30, 30, 30}, [&](const auto& list) { return sum(list) >= 20; }, 500);
  CHECK(sum(least) == 20);
}

TEST_CASE(
    "choices: shrinking asks no more often than it may, and keeps the original when nothing simpler fails") {
  unsigned asked = 0;
  const auto least = shrink(
      {9, 9, 9}, [&](const auto&) { return ++asked > 1000; }, 5);
  CHECK(asked == 5);
  CHECK(least == std::vector<uint64_t>{9, 9, 9});
}
