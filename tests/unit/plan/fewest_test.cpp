// SPDX-License-Identifier: Apache-2.0
// The culprits are found, alone or together, in few questions.
#include "plan/fewest.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace tenon;

namespace {

// Asks with a world in which all of `culprits` together make the difference.
struct World {
  std::set<size_t> culprits;
  size_t questions = 0;

  std::vector<size_t> find(size_t count) {
    const auto differs = [&](std::span<const size_t> some) -> Result<bool> {
      ++questions;
      CHECK(std::is_sorted(some.begin(), some.end()));
      return std::all_of(culprits.begin(), culprits.end(),
                         [&](size_t one) { return std::find(some.begin(), some.end(), one) != some.end(); });
    };
    auto found = plan_room::fewest(count, differs);
    REQUIRE(found.ok());
    return *found;
  }
};

}  // namespace

TEST_CASE("fewest: one of a thousand is found in two questions a halving") {
  for (const size_t culprit : {size_t{0}, size_t{1}, size_t{500}, size_t{999}}) {
    World world{.culprits = {culprit}};
    CHECK(world.find(1000) == std::vector<size_t>{culprit});
    CHECK(world.questions <= 20);
  }
}

TEST_CASE("fewest: two that are bad only together are both found, and nothing else") {
  World world{.culprits = {3, 17}};
  CHECK(world.find(20) == std::vector<size_t>{3, 17});
  World neighbours{.culprits = {4, 5, 6}};
  CHECK(neighbours.find(16) == std::vector<size_t>{4, 5, 6});
}

TEST_CASE("fewest: nothing to choose from, and a failure on the way") {
  World world;
  CHECK(world.find(0).empty());
  CHECK(world.find(1) == std::vector<size_t>{0});
  const auto fails = [](std::span<const size_t>) -> Result<bool> { return Status(TN_DEVICE_LOST, "gone"); };
  CHECK(plan_room::fewest(4, fails).code() == TN_DEVICE_LOST);
}
