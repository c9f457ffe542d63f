// SPDX-License-Identifier: Apache-2.0
// What lives at one time lies apart; what does not shares places.
#include "plan/layout.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tenon;
using plan_room::lay_out;
using plan_room::Layout;
using plan_room::Life;

TEST_CASE("layout: a chain needs two places") {
  std::vector<Life> lives;
  for (uint32_t i = 0; i < 10; ++i) lives.push_back({1000, i, i + 1});
  const Layout layout = lay_out(lives, 256);
  CHECK(layout.bytes == 2 * 1024);
  CHECK(layout.bytes_without_reuse == 10 * 1024);
}

TEST_CASE("layout: a larger value takes the gap at the end and what it needs beyond") {
  const std::vector<Life> lives{{512, 0, 1}, {512, 1, 2}, {1024, 3, 4}};
  CHECK(lay_out(lives, 256).bytes == 1024);
}

TEST_CASE("layout: nothing takes no room") {
  CHECK(lay_out({}, 256).bytes == 0);
  const std::vector<Life> lives{{0, 0, 5}, {0, 1, 1}};
  CHECK(lay_out(lives, 256).bytes == 0);
}

TEST_CASE(
    "layout: over random lives no two overlap in time and place, and the block stays near what lives at "
    "once") {
  auto numbers = test::generator();
  const int rounds = test::full_or("rounds", 200, 2'000);
  for (int round = 0; round < rounds; ++round) {
    std::vector<Life> lives;
    uint32_t at = 0;
    for (int i = 0; i < 60; ++i) {
      at += static_cast<uint32_t>(numbers() % 2);
      lives.push_back({numbers() % 5000, at, at + static_cast<uint32_t>(numbers() % 6)});
    }
    const Layout layout = lay_out(lives, 256);
    uint64_t most = 0;
    for (size_t a = 0; a < lives.size(); ++a) {
      CHECK(layout.places[a] % 256 == 0);
      CHECK(layout.places[a] + lives[a].bytes <= layout.bytes);
      uint64_t alive = 0;
      for (size_t b = 0; b < lives.size(); ++b) {
        if (lives[b].from > lives[a].from || lives[b].to < lives[a].from) continue;
        alive += (lives[b].bytes + 255) / 256 * 256;
        const bool apart = layout.places[a] + lives[a].bytes <= layout.places[b] ||
                           layout.places[b] + lives[b].bytes <= layout.places[a];
        if (a != b && lives[a].bytes > 0 && lives[b].bytes > 0) REQUIRE(apart);
      }
      most = std::max(most, alive);
    }
    CHECK(layout.bytes >= most);
    CHECK(layout.bytes <= 2 * most);
  }
}
