// SPDX-License-Identifier: Apache-2.0
// What ranks bring to a collective, what they must get, and which results are too far off; the store they meet over.
#include "conformance/comm/trial.hpp"
#include "conformance/ops/number.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace tenon::conform;

namespace {

constexpr uint32_t ranks = 5;

// The sum in order of rank, rounded to the type after each step where `halfway`.
Bytes sum(const Exchange& trial, bool halfway) {
  const uint64_t width = element_bytes(trial.dtype);
  std::vector<Bytes> all;
  for (uint32_t q = 0; q < ranks; ++q) all.push_back(brought(trial, q, ranks));
  Bytes out(trial.count * width);
  for (uint64_t i = 0; i < trial.count; ++i) {
    double total = decode(trial.dtype, &all[0][i * width]).real;
    for (uint32_t q = 1; q < ranks; ++q) {
      total += decode(trial.dtype, &all[q][i * width]).real;
      if (halfway) total = rounded(format_of(trial.dtype), total);
    }
    encode(trial.dtype, Scalar::of(total), &out[i * width]);
  }
  return out;
}

}  // namespace

TEST_CASE(
    "collective: a sum of halves that is rounded once is right, one that is rounded on the way is not") {
  for (const uint32_t dtype : {TN_DTYPE_bf16, TN_DTYPE_f16}) {
    const Exchange trial{.dtype = dtype, .count = 200, .seed = 11};
    const Expected wanted = expected(trial, 0, ranks);
    CHECK(flaw_of(trial, wanted, sum(trial, false)) == "");
    CHECK(flaw_of(trial, wanted, sum(trial, true)) != "");
  }
}

TEST_CASE("collective: an average that is not divided is found in every type") {
  for (const uint32_t dtype : {TN_DTYPE_i8, TN_DTYPE_u8, TN_DTYPE_i64, TN_DTYPE_f32, TN_DTYPE_f64}) {
    Exchange trial{.dtype = dtype, .reduce = TN_REDUCE_SUM, .count = 50, .seed = 3};
    trial.reduce = TN_REDUCE_AVG;
    const Expected mean = expected(trial, 0, 3);
    REQUIRE(mean.values.size() == trial.count);
    const uint64_t width = element_bytes(dtype);
    Bytes whole(trial.count * width), divided(trial.count * width);
    for (uint64_t i = 0; i < trial.count; ++i) {
      const auto value = static_cast<double>(mean.values[i]);
      const double total = value * 3;
      encode(dtype, {total, static_cast<uint64_t>(static_cast<int64_t>(std::llround(total)))},
             &whole[i * width]);
      encode(dtype, {value, static_cast<uint64_t>(static_cast<int64_t>(value))}, &divided[i * width]);
    }
    CHECK(flaw_of(trial, mean, divided) == "");
    CHECK(flaw_of(trial, mean, whole) != "");
  }
}

TEST_CASE("collective: what is moved is wrong when one bit is") {
  const Exchange trial{.kind = TN_COMM_ALL_TO_ALL_V, .dtype = TN_DTYPE_f64, .count = 40, .seed = 9};
  Bytes arrived;
  for (uint32_t q = 0; q < 3; ++q) {  // rank 2 gets the last part of what each sends
    const Bytes from = brought(trial, q, 3);
    const uint64_t mine = given(trial, q, 2) * 8;
    arrived.insert(arrived.end(), from.end() - static_cast<std::ptrdiff_t>(mine), from.end());
  }
  const Expected wanted = expected(trial, 2, 3);
  CHECK(flaw_of(trial, wanted, arrived) == "");
  arrived.back() ^= std::byte{1};
  CHECK(flaw_of(trial, wanted, arrived) != "");
}

TEST_CASE("collective: a key of the store is set once, and waited for") {
  auto place = MeetingPlace::make();
  REQUIRE(place.ok());
  const FolderStore one(place->folder()), two(place->folder());
  const Bytes value{std::byte{1}, std::byte{0}, std::byte{7}};
  CHECK(one.set("a/b c", value).ok());
  CHECK(one.set("a/b c", value).code() == TN_INVALID);
  CHECK(two.set("a/b c", {}).code() == TN_INVALID);
  const auto found = two.get("a/b c", 0);
  REQUIRE(found.ok());
  CHECK(*found == value);
  CHECK(two.get("nobody", 1'000'000).code() == TN_TIMEOUT);
}
