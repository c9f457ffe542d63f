// SPDX-License-Identifier: Apache-2.0
// pace_test.cpp: when a rank asks whether the others have its oldest group, told by a clock of the test's own.
#include "comm/pace.hpp"

#include <doctest/doctest.h>

using namespace std::chrono_literals;
using tenon::comm::Pace;

namespace {

// Groups that take so long one after the other, and then none.
struct Course {
  Pace pace;
  Pace::Time now{1h};
  uint64_t group = 0;

  void takes(std::chrono::nanoseconds time) {
    CHECK_FALSE(pace.is_long(++group, now));
    now += time;
    CHECK_FALSE(pace.is_long(0, now));
  }
};

}  // namespace

TEST_CASE("pace: a group is asked about after 0.4 s, once, and not before") {
  Course course{.pace = Pace(10s)};
  CHECK_FALSE(course.pace.is_long(1, course.now));
  CHECK_FALSE(course.pace.is_long(1, course.now + 399ms));
  CHECK(course.pace.is_long(1, course.now + 400ms));
  CHECK(course.pace.is_long(1, course.now + 401ms));  // until it was
  course.pace.asked();
  CHECK_FALSE(course.pace.is_long(1, course.now + 9s));
  CHECK_FALSE(course.pace.is_long(2, course.now + 9s));
}

TEST_CASE("pace: the time doubles with the slowest group that has ended, up to the limit, and never falls") {
  Course course{.pace = Pace(3s)};
  CHECK(course.pace.patience() == 400ms);
  for (const auto& [took, given] : {std::pair{150ms, 400ms},
                                    {300ms, 600ms},
                                    {550ms, 1'100ms},
                                    {1ms, 1'100ms},
                                    {1'000ms, 2'000ms},
                                    {1'900ms, 3'000ms}}) {
    course.takes(took);
    CHECK(course.pace.patience() == given);
  }
  CHECK_FALSE(course.pace.is_long(100, course.now));
  CHECK_FALSE(course.pace.is_long(100, course.now + 2'999ms));
  CHECK(course.pace.is_long(100, course.now + 3s));
}

TEST_CASE("pace: a limit below 0.4 s is kept, and the time between groups is nobody's") {
  Course course{.pace = Pace(100ms)};
  CHECK_FALSE(course.pace.is_long(1, course.now));
  CHECK(course.pace.is_long(1, course.now + 100ms));
  Course idle{.pace = Pace(10s)};
  idle.takes(10ms);
  idle.now += 5s;
  idle.takes(10ms);
  CHECK(idle.pace.patience() == 400ms);
}

TEST_CASE("pace: where the store does not answer a group is asked about later") {
  Course course{.pace = Pace(10s)};
  CHECK_FALSE(course.pace.is_long(1, course.now));
  course.pace.put_off(course.now + 3s);
  CHECK_FALSE(course.pace.is_long(1, course.now + 2'999ms));
  CHECK(course.pace.is_long(1, course.now + 3s));
}
