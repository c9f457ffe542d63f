// SPDX-License-Identifier: Apache-2.0
// Elements of every dtype: what memory holds and what the kit computes with.
#include "conformance/ops/number.hpp"

#include <doctest/doctest.h>
#include <tenon/author/names.hpp>

#include <cmath>
#include <cstring>
#include <limits>

using namespace tenon::conform;

namespace {

uint16_t half_bits(uint32_t dtype, double value) {
  std::byte at[2];
  encode(dtype, Scalar::of(value), at);
  uint16_t out = 0;
  std::memcpy(&out, at, sizeof out);
  return out;
}

}  // namespace

TEST_CASE("number: every half that is no NaN survives decoding and encoding") {
  for (const uint32_t dtype : {TN_DTYPE_f16, TN_DTYPE_bf16}) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto given = static_cast<uint16_t>(bits);
      std::byte at[2];
      std::memcpy(at, &given, 2);
      const double value = decode(dtype, at).real;
      if (!std::isnan(value)) REQUIRE(half_bits(dtype, value) == given);
    }
    CHECK(std::isnan(rounded(format_of(dtype), std::nan(""))));
  }
}

TEST_CASE("number: rounding is to nearest even, to infinity past the largest") {
  CHECK(half_bits(TN_DTYPE_f16, 1 + 0x1p-11) == 0x3c00);            // a tie, down to even
  CHECK(half_bits(TN_DTYPE_f16, 1 + 3 * 0x1p-11) == 0x3c02);        // a tie, up to even
  CHECK(half_bits(TN_DTYPE_f16, 1 + 0x1p-11 + 0x1p-40) == 0x3c01);  // above the tie
  CHECK(half_bits(TN_DTYPE_f16, 65519.99) == 0x7bff);
  CHECK(half_bits(TN_DTYPE_f16, 65520) == 0x7c00);
  CHECK(half_bits(TN_DTYPE_f16, 0x1p-25) == 0);  // half of the least subnormal
  CHECK(half_bits(TN_DTYPE_f16, 0x1.1p-25) == 1);
  CHECK(half_bits(TN_DTYPE_bf16, -0.0) == 0x8000);
  const double past = static_cast<double>(std::numeric_limits<float>::max()) * (1 + 0x1p-24);
  CHECK(std::isinf(rounded(format_of(TN_DTYPE_f32), past)));
  CHECK(rounded(format_of(TN_DTYPE_f32), 0.1) == static_cast<double>(0.1f));
}

TEST_CASE("number: a ulp is the distance to the next number") {
  CHECK(ulp(format_of(TN_DTYPE_f32), 1.0) == 0x1p-23);
  CHECK(ulp(format_of(TN_DTYPE_f32), 1.999) == 0x1p-23);
  CHECK(ulp(format_of(TN_DTYPE_f32), -2.0) == 0x1p-22);
  CHECK(ulp(format_of(TN_DTYPE_f32), 0) == 0x1p-149);
  CHECK(ulp(format_of(TN_DTYPE_f32), 1e-44) == 0x1p-149);
  CHECK(ulp(format_of(TN_DTYPE_bf16), 1.0) == 0x1p-7);
  CHECK(ulp(format_of(TN_DTYPE_f64), 1.0) == 0x1p-52);
}

TEST_CASE("number: integers wrap to their width and keep their sign") {
  CHECK(wrapped(TN_DTYPE_i8, 200) == static_cast<uint64_t>(int64_t{-56}));
  CHECK(wrapped(TN_DTYPE_u8, 300) == 44);
  CHECK(wrapped(TN_DTYPE_i64, ~uint64_t{0}) == ~uint64_t{0});
  CHECK(wrapped(TN_DTYPE_bool, 7) == 1);
  std::byte at[1];
  encode(TN_DTYPE_i8, Scalar::of_whole(static_cast<uint64_t>(int64_t{-3})), at);
  CHECK(decode(TN_DTYPE_i8, at).integer() == -3);
  at[0] = std::byte{2};
  CHECK(decode(TN_DTYPE_bool, at).whole == 2);  // a bool that is neither 0 nor 1 is seen
}

TEST_CASE("number: rounding to odd first keeps a second rounding honest") {
  // 2^63 + 2^39 + 1 is just above a tie of f32; rounding to f64 first would drop the 1 and round down.
  const uint64_t x = (uint64_t{1} << 63) + (uint64_t{1} << 39) + 1;
  const Format& f32 = format_of(TN_DTYPE_f32);
  CHECK(rounded(f32, to_odd(x)) == 0x1p63 + 0x1p40);
  CHECK(rounded(f32, static_cast<double>(x)) == 0x1p63);
  CHECK(to_odd(12345) == 12345);
}
