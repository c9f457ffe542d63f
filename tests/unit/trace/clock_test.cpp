// SPDX-License-Identifier: Apache-2.0
// clock_test.cpp: from a device's clock to the host's.
#include "trace/clock.hpp"

#include "base/clock.hpp"

#include <doctest/doctest.h>

using namespace tenon;
using namespace tenon::trace;

TEST_CASE("clock: one clock for both passes times as they are") {
  const ClockPair first{.device_ns = 100, .host_ns = 101, .same = true},
      last{.device_ns = 900, .host_ns = 903, .same = true};
  CHECK(host_time(500, first, last) == 500);
}

TEST_CASE("clock: another origin and another pace are both made good") {
  const ClockPair first{.device_ns = 1000, .host_ns = 50'000}, last{.device_ns = 2000, .host_ns = 52'000};
  CHECK(host_time(1000, first, last) == 50'000);
  CHECK(host_time(1500, first, last) == 51'000);
  CHECK(host_time(2000, first, last) == 52'000);
  CHECK(host_time(900, first, last) == 49'800);  // before the first pair
  CHECK(host_time(3000, first, last) == 54'000);
}

TEST_CASE("clock: a single pair shifts only") {
  const ClockPair only{.device_ns = 1000, .host_ns = 50'000};
  CHECK(host_time(1200, only, only) == 50'200);
}

TEST_CASE("clock: the host's has a name, and stands to the day as the day's clock says") {
  CHECK_FALSE(host_clock().empty());
  CHECK(host_clock() == host_clock());
  const int64_t first = utc_offset_ns(), second = utc_offset_ns();
  CHECK(std::abs(second - first) < 3'600'000'000'000);
  CHECK(first + static_cast<int64_t>(base::now_ns()) > 1'500'000'000'000'000'000);  // after 2017
}
