// SPDX-License-Identifier: Apache-2.0
// intervals_test.cpp: sets of moments, some by hand, many against one flag for each moment.
#include "trace/intervals.hpp"

#include "support/full.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <array>
#include <random>

using namespace tenon;
using namespace tenon::trace;

namespace {

using Pieces = std::vector<TraceInterval>;
constexpr int moments = 40;
using Flags = std::array<bool, moments>;

Flags flags_of(const Pieces& pieces) {
  Flags out{};
  for (const TraceInterval& piece : pieces)
    for (int64_t at = piece.begin_ns; at < piece.end_ns; ++at) out[static_cast<size_t>(at)] = true;
  return out;
}

Pieces some_pieces(std::mt19937_64& random) {
  Pieces out(random() % 8);
  for (TraceInterval& piece : out) {
    piece.begin_ns = static_cast<int64_t>(random() % moments);
    piece.end_ns =
        piece.begin_ns + static_cast<int64_t>(random() % (moments - static_cast<uint64_t>(piece.begin_ns)));
  }
  return out;
}

bool in_order_and_apart(const Pieces& pieces) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].begin_ns >= pieces[i].end_ns) return false;
    if (i > 0 && pieces[i - 1].end_ns >= pieces[i].begin_ns) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("intervals: pieces that meet or overlap become one, empty ones vanish") {
  CHECK(united({}).empty());
  CHECK(united({{3, 3}}).empty());
  CHECK(united({{5, 9}, {1, 3}, {3, 4}, {6, 7}}) == Pieces{{1, 4}, {5, 9}});
  CHECK(length_ns(united({{1, 3}, {2, 6}, {8, 9}})) == 6);
}

TEST_CASE("intervals: what is taken away leaves pieces on both sides") {
  CHECK(without({{0, 10}}, {{2, 3}, {5, 7}}) == Pieces{{0, 2}, {3, 5}, {7, 10}});
  CHECK(without({{0, 10}}, {{0, 10}}).empty());
  CHECK(without({{0, 2}, {4, 6}}, {{1, 5}}) == Pieces{{0, 1}, {5, 6}});
  CHECK(without({{0, 2}}, {}) == Pieces{{0, 2}});
  CHECK(without({}, {{0, 2}}).empty());
}

TEST_CASE("intervals: equal a flag for each moment on random pieces") {
  const int cases = test::full_or("cases", 2'000, 200'000);
  std::mt19937_64 random(test::seed());
  for (int i = 0; i < cases; ++i) {
    const Pieces a = some_pieces(random), b = some_pieces(random);
    const Pieces of_a = united(a), of_b = united(b), rest = without(of_a, of_b);
    REQUIRE(in_order_and_apart(of_a));
    REQUIRE(in_order_and_apart(rest));
    REQUIRE(flags_of(of_a) == flags_of(a));
    const Flags in_a = flags_of(a), in_b = flags_of(b), left = flags_of(rest);
    for (size_t at = 0; at < moments; ++at) REQUIRE(left[at] == (in_a[at] && !in_b[at]));
  }
}
