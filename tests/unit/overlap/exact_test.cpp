// SPDX-License-Identifier: Apache-2.0
// The exact cut: as early as the best of all cuts, for any rising cost and any limits.
#include "overlap/exact.hpp"
#include "steps.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tenon;

namespace {

struct Case {
  std::vector<double> ready{};
  std::vector<uint64_t> sums{0};
  CostTable cost{};
  overlap::Limits limits{};
  size_t size() const { return ready.size(); }
};

CostTable random_cost(std::mt19937_64& random) {
  if (test::between(random, 0, 2) == 0)
    return CostTable::linear(test::between(random, 0, 30), test::between(random, 0, 20) / 10.0);
  std::vector<CostTable::Point> points;
  uint64_t bytes = static_cast<uint64_t>(test::between(random, 0, 10));
  double ns = test::between(random, 0, 30);
  for (int k = test::between(random, 2, 6); k > 0; --k) {
    points.push_back({bytes, ns});
    bytes += static_cast<uint64_t>(test::between(random, 1, 40));
    ns += test::between(random, 0, 40);  // curved any way
  }
  return *CostTable::measured(points);
}

Case random_case(std::mt19937_64& random, int most) {
  Case out{.cost = random_cost(random)};
  const int length = test::between(random, 1, most), rush = test::between(random, 0, 3);
  double now = 0;
  for (int i = 0; i < length; ++i) {
    now += rush == 0 ? 0 : test::between(random, 0, 20 * rush);
    out.ready.push_back(now);
    out.sums.push_back(out.sums.back() + static_cast<uint64_t>(test::between(random, 0, 25)));
  }
  if (test::between(random, 0, 2) == 0)
    out.limits.bytes = static_cast<uint64_t>(test::between(random, 1, 60));
  if (test::between(random, 0, 2) == 0) out.limits.count = static_cast<uint32_t>(test::between(random, 1, 5));
  return out;
}

bool allowed(const Case& of, size_t from, size_t to) {
  return to - from == 1 || ((of.limits.bytes == 0 || of.sums[to] - of.sums[from] <= of.limits.bytes) &&
                            (of.limits.count == 0 || to - from <= of.limits.count));
}

double end_of(const Case& of, const overlap::Cuts& cuts) {
  double end = 0;
  size_t from = 0;
  for (const uint32_t to : cuts) {
    end = std::max(end, of.ready[to - 1]) + of.cost.ns(of.sums[to] - of.sums[from]);
    from = to;
  }
  return end;
}

double best_of_all(const Case& of) {
  double best = 1e300;
  for (uint32_t mask = 0; mask < 1u << (of.size() - 1); ++mask) {
    overlap::Cuts cuts;
    bool fits = true;
    size_t from = 0;
    for (uint32_t i = 1; i <= of.size(); ++i) {
      if (i < of.size() && (mask >> (i - 1) & 1) == 0) continue;
      fits = fits && allowed(of, from, i);
      cuts.push_back(i);
      from = i;
    }
    if (fits) best = std::min(best, end_of(of, cuts));
  }
  return best;
}

// The recurrence as it is written down.
double best_by_squares(const Case& of) {
  std::vector<double> end(of.size() + 1, 1e300);
  end[0] = 0;
  for (size_t j = 1; j <= of.size(); ++j) {
    for (size_t i = 0; i < j; ++i) {
      if (allowed(of, i, j))
        end[j] = std::min(end[j], std::max(end[i], of.ready[j - 1]) + of.cost.ns(of.sums[j] - of.sums[i]));
    }
  }
  return end.back();
}

void check_cuts(const Case& of, const overlap::ExactCuts& found) {
  REQUIRE(found.cuts.back() == of.size());
  size_t from = 0;
  for (const uint32_t to : found.cuts) {
    REQUIRE(to > from);
    CHECK(allowed(of, from, to));
    from = to;
  }
  CHECK(end_of(of, found.cuts) == doctest::Approx(found.end).epsilon(1e-9));
}

}  // namespace

TEST_CASE("exact cut: equals the best of all cuts on 1,000 random small cases") {
  auto random = test::generator();
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    const Case one = random_case(random, 10);
    const auto found =
        overlap::exact_cuts(one.ready, one.sums, one.cost, one.limits, round % 2 == 0 ? 0.1 : 0.0);
    CHECK(found.end == doctest::Approx(best_of_all(one)).epsilon(1e-9));
    check_cuts(one, found);
  }
}

TEST_CASE("exact cut: equals the plain recurrence on long rows, where queues fill and windows move") {
  auto random = test::generator();
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const Case one = random_case(random, 400);
    const auto found = overlap::exact_cuts(one.ready, one.sums, one.cost, one.limits, 0.1);
    CHECK(found.end == doctest::Approx(best_by_squares(one)).epsilon(1e-9));
    check_cuts(one, found);
  }
}

TEST_CASE("exact cut: joins what a slow backward leaves time for, and keeps the end") {
  Case slow{.cost = CostTable::linear(1, 1)};
  for (int i = 1; i <= 8; ++i) {
    slow.ready.push_back(i * 100);
    slow.sums.push_back(slow.sums.back() + 2);
  }
  const auto found = overlap::exact_cuts(slow.ready, slow.sums, slow.cost, {}, 0.1);
  CHECK(found.end == 803);
  CHECK(found.cuts == overlap::Cuts{7, 8});
}

TEST_CASE("exact cut: nothing to cut is no bucket") {
  CHECK(overlap::exact_cuts({}, std::vector<uint64_t>{0}, CostTable::linear(1, 1), {}, 0).cuts.empty());
}
