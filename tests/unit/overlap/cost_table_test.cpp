// SPDX-License-Identifier: Apache-2.0
// Cost tables: straight between their points, never falling, the least of several.
#include "steps.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tenon;

namespace {

CostTable measured(std::vector<CostTable::Point> points) {
  auto table = CostTable::measured(std::move(points));
  REQUIRE_MESSAGE(table.ok(), table.message());
  return std::move(table).take();
}

}  // namespace

TEST_CASE("cost table: is straight between its points, flat before the first, goes on after the last") {
  const CostTable table = measured({{100, 10}, {200, 30}, {400, 40}});
  CHECK(table.ns(0) == 10);
  CHECK(table.latency_ns() == 10);
  CHECK(table.ns(100) == 10);
  CHECK(table.ns(150) == 20);
  CHECK(table.ns(300) == 35);
  CHECK(table.ns(800) == doctest::Approx(60));
}

TEST_CASE("cost table: one without points costs nothing and says so") {
  CHECK_FALSE(CostTable());
  CHECK(CostTable().ns(1 << 20) == 0);
  CHECK(CostTable::linear(0, 0));
}

TEST_CASE("cost table: points that fall become their mean") {
  const CostTable table = measured({{1, 10}, {2, 40}, {3, 20}, {4, 30}, {5, 90}});
  CHECK(table.ns(1) == 10);
  CHECK(table.ns(2) == 30);
  CHECK(table.ns(3) == 30);
  CHECK(table.ns(4) == 30);
  CHECK(table.ns(5) == 90);
}

TEST_CASE("cost table: points that are no measurement are refused by name") {
  const auto refuses = [](std::vector<CostTable::Point> points, const char* words) {
    const auto table = CostTable::measured(std::move(points));
    CHECK(table.code() == TN_INVALID);
    CHECK_MESSAGE(std::string(table.message()).find(words) != std::string::npos, table.message());
  };
  refuses({{1, 1}}, "needs two points or more, not 1");
  refuses({{1, 1}, {1, 2}}, "list points by rising bytes");
  refuses({{1, -1}, {2, 2}}, "1 bytes, -1.000000 ns is not a time");
  refuses({{1, 1}, {2, 1.0 / 0.0}}, "is not a time");
}

TEST_CASE(
    "cost table: the cheapest of several is the least of them at every size, before and after they cross") {
  auto random = test::generator();
  for (int round = 0; round < 200; ++round) {
    std::vector<CostTable> tables{CostTable()};
    for (int i = test::between(random, 1, 3); i > 0; --i) {
      std::vector<CostTable::Point> points;
      uint64_t bytes = 0;
      double ns = 0;
      for (int k = test::between(random, 2, 6); k > 0; --k) {
        bytes += static_cast<uint64_t>(test::between(random, 1, 100));
        ns += test::between(random, 0, 100);
        points.push_back({bytes, ns});
      }
      tables.push_back(measured(points));
    }
    const CostTable cheapest = CostTable::cheapest(tables);
    for (uint64_t bytes = 0; bytes < 2000; bytes += 7) {
      double least = 1e300;
      for (size_t i = 1; i < tables.size(); ++i) least = std::min(least, tables[i].ns(bytes));
      CHECK(cheapest.ns(bytes) == doctest::Approx(least).epsilon(1e-9));
    }
  }
}
