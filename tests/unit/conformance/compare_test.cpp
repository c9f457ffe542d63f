// SPDX-License-Identifier: Apache-2.0
// How far a result may be from the reference.
#include "conformance/ops/compare.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace tenon::conform;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Whether `got` passes as `op`'s result where `exact` is right.
bool passes(const char* op, uint32_t dtype, double exact, double got, double magnitude = 0,
            double length = 1) {
  Wanted wanted;
  wanted.tensor = {.dtype = dtype, .dims = {}, .at = {Scalar::of(exact)}};
  wanted.magnitude = {magnitude};
  wanted.length = length;
  const Tensor found{.dtype = dtype, .dims = {}, .at = {Scalar::of(got)}};
  return !compare(*find_row(op), dtype, wanted, found);
}

}  // namespace

TEST_CASE("compare: one rounding is exact, the next number is wrong") {
  const double right = static_cast<double>(0.1f);
  CHECK(passes("add", TN_DTYPE_f32, 0.1, right));
  CHECK_FALSE(passes("add", TN_DTYPE_f32, 0.1, right + 0x1p-27));
  CHECK_FALSE(passes("add", TN_DTYPE_f32, 0.1, right - 0x1p-27));
  CHECK(passes("add", TN_DTYPE_f32, 0, -0.0));
}

TEST_CASE("compare: exact ops keep the sign of zero, except where the op does not order zeros") {
  CHECK_FALSE(passes("neg", TN_DTYPE_f32, -0.0, 0.0));
  CHECK(passes("max", TN_DTYPE_f32, -0.0, 0.0));
}

TEST_CASE("compare: NaN meets NaN, infinity the same infinity") {
  const double nan = std::nan("");
  CHECK(passes("exp", TN_DTYPE_f32, nan, nan));
  CHECK_FALSE(passes("exp", TN_DTYPE_f32, nan, 1));
  CHECK_FALSE(passes("exp", TN_DTYPE_f32, 1, nan));
  CHECK_FALSE(passes("sum", TN_DTYPE_f32, infinity, -infinity));
  CHECK_FALSE(passes("sum", TN_DTYPE_f32, infinity, 3e38, 1));
  CHECK(passes("exp", TN_DTYPE_f16, 65521, infinity));
  CHECK_FALSE(passes("exp", TN_DTYPE_f16, 60000, infinity));
}

TEST_CASE("compare: a sum may round, and may not lose a term") {
  const double n = 1000, one = 1;
  CHECK(passes("sum", TN_DTYPE_f32, n, n + 100 * 0x1p-24 * n, n, n));
  CHECK_FALSE(passes("sum", TN_DTYPE_f32, n, n - one, n, n));
  CHECK_FALSE(passes("sum", TN_DTYPE_f32, 1e6, 1e6 - 64, 1e6, 1e6 / 64));  // 15,625 terms of 64
  // Cancellation: the terms were large.
  CHECK(passes("sum", TN_DTYPE_f32, 0, 1e-5, 1000, 1000));
}

TEST_CASE("compare: a sum that leaves the range computed in says nothing") {
  CHECK(passes("sum", TN_DTYPE_f32, 1, infinity, 1e39, 2));
}

TEST_CASE("compare: errors that are all near their limit are a bias") {
  Wanted wanted;
  Tensor low;
  wanted.tensor = low = {.dtype = TN_DTYPE_f32, .dims = {200}, .at = {}};
  for (int i = 0; i < 200; ++i) {
    const double x = 1 + i * 0x1p-10;
    wanted.tensor.at.push_back(Scalar::of(x));
    low.at.push_back(Scalar::of(x - 4 * 0x1p-23));
  }
  const auto story = compare(*find_row("exp"), TN_DTYPE_f32, wanted, low);
  REQUIRE(story);
  CHECK(story->find("normalised error") != std::string::npos);
  for (size_t i = 0; i < 200; i += 2) low.at[i] = wanted.tensor.at[i];
  CHECK_FALSE(compare(*find_row("exp"), TN_DTYPE_f32, wanted, low));
}

TEST_CASE("compare: a vendor's slack lets pass what it says, and its use is told") {
  Wanted wanted;
  wanted.tensor = {.dtype = TN_DTYPE_f32, .dims = {3}, .at = std::vector<Scalar>(3, Scalar::of(1))};
  Tensor got = wanted.tensor;
  got.at[1].real = 1 + 6 * 0x1p-23;
  got.at[2].real = 1 - 9 * 0x1p-24;  // 9 ULP of the numbers below 1
  const Row &exp = *find_row("exp"), &floor = *find_row("floor");
  const auto judge = [&](const Row& row, const Slack& slack, Eased& eased) {
    return !compare(row, TN_DTYPE_f32, wanted, got, slack, &eased);
  };
  Eased none, little, enough, exact;
  CHECK_FALSE(judge(exp, {}, none));
  CHECK(none.elements == 0);
  CHECK_FALSE(judge(exp, {.ulps = 5}, little));
  CHECK(judge(exp, {.ulps = 6.5}, enough));
  CHECK(enough.elements == 1);
  CHECK(enough.ulps == 6);
  CHECK(enough.usual_ulps > 4);
  CHECK(enough.usual_ulps < 6);
  CHECK(judge(exp, {.factor = 2}, enough));
  CHECK(enough.elements == 2);
  CHECK_FALSE(judge(floor, {.factor = 1000}, exact));
  CHECK(judge(floor, {.ulps = 6}, exact));
  CHECK(exact.elements == 2);
  CHECK(exact.usual_ulps == 0);
}

TEST_CASE("compare: slack reaches as far as infinity, and to no NaN") {
  const auto judge = [](double exact, double found, const Slack& slack) {
    Wanted wanted;
    wanted.tensor = {.dtype = TN_DTYPE_f16, .dims = {}, .at = {Scalar::of(exact)}};
    Eased eased;
    return !compare(*find_row("exp"), TN_DTYPE_f16, wanted,
                    {.dtype = TN_DTYPE_f16, .dims = {}, .at = {Scalar::of(found)}}, slack, &eased);
  };
  CHECK_FALSE(judge(65400, infinity, {}));
  CHECK(judge(65400, infinity, {.ulps = 4}));
  CHECK_FALSE(judge(65400, -infinity, {.ulps = 4}));
  CHECK_FALSE(judge(60000, infinity, {.ulps = 4}));
  CHECK_FALSE(judge(1, std::nan(""), {.ulps = 1e6}));
  CHECK_FALSE(judge(std::nan(""), 1, {.ulps = 1e6}));
  CHECK_FALSE(judge(infinity, 65504, {.ulps = 1e6}));
}

TEST_CASE("compare: the story names place, values and distance") {
  Wanted wanted;
  wanted.tensor = {.dtype = TN_DTYPE_f32, .dims = {2, 2}, .at = std::vector<Scalar>(4, Scalar::of(1))};
  Tensor got = wanted.tensor;
  got.at[2].real = 1.5;
  const auto story = compare(*find_row("add"), TN_DTYPE_f32, wanted, got);
  REQUIRE(story);
  CHECK(story->find("element 2 at [1,0] is 1.5 and must be 1") != std::string::npos);
  CHECK(story->find("ULP") != std::string::npos);
}
