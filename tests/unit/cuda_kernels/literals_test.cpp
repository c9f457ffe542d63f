// SPDX-License-Identifier: Apache-2.0
// literals_test.cpp: numbers as the source spells them: rounded once, and bit for bit.
#include "kernels/literal.hpp"

#include "written.hpp"

#include <cmath>
#include <cstring>
#include <limits>

using namespace cuda_test;
using namespace tenon::cuda;

TEST_CASE("literal: halves are rounded to nearest even, with their subnormals, infinities and NaN") {
  struct Case {
    double value;
    uint64_t f16, bf16;
  };
  const double infinity = std::numeric_limits<double>::infinity();
  const Case cases[] = {{0.0, 0, 0},
                        {-0.0, 0x8000, 0x8000},
                        {1.0, 0x3C00, 0x3F80},
                        {-1.5, 0xBE00, 0xBFC0},
                        {1 + 0x1p-11, 0x3C00, 0x3F80},  // half way in f16: to even
                        {1 + 0x3p-11, 0x3C02, 0x3F80},  // half way in f16: to even
                        {65504, 0x7BFF, 0x4780},        // the largest f16
                        {65520, 0x7C00, 0x4780},        // past it
                        {0x1p-24, 0x0001, 0x3380},      // the least f16
                        {0x1p-25, 0x0000, 0x3300},      // half of it: to even
                        {0x1p-133, 0x0000, 0x0001},     // the least bf16
                        {infinity, 0x7C00, 0x7F80},
                        {-infinity, 0xFC00, 0xFF80}};
  for (const Case& one : cases) {
    CAPTURE(one.value);
    CHECK(bits_of(TN_DTYPE_f16, one.value) == one.f16);
    CHECK(bits_of(TN_DTYPE_bf16, one.value) == one.bf16);
  }
  CHECK((bits_of(TN_DTYPE_f16, std::nan("")) & 0x7FFF) > 0x7C00);
  CHECK((bits_of(TN_DTYPE_bf16, std::nan("")) & 0x7FFF) > 0x7F80);
}

TEST_CASE("literal: integers wrap to their width") {
  CHECK(bits_of(TN_DTYPE_i8, -1) == 0xFF);
  CHECK(bits_of(TN_DTYPE_u16, 65537) == 1);
  CHECK(bits_of(TN_DTYPE_bool, 0.5) == 1);
  CHECK(bits_of(TN_DTYPE_i64, -2) == ~uint64_t{1});
}

TEST_CASE("literal: a number is spelled by its bits") {
  CHECK(literal(TN_DTYPE_f32, 0x3F800000) == "f32_of(0x3f800000u)");
  CHECK(literal(TN_DTYPE_f16, 0x3C00) == "f32_of(0x3f800000u)");  // computed with as f32
  CHECK(literal(TN_DTYPE_bool, 1) == "true");
  CHECK(literal(TN_DTYPE_i8, 0x80) == "static_cast<i8>(0x80ull)");
}

TEST_CASE("literal: a constant of rank 0, or of one value, is no array") {
  const auto program_with = [](const std::vector<float>& values, const std::vector<int64_t>& dims) {
    FragmentBuilder f;
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    const uint32_t x = f.input(TN_DTYPE_f32, {4}), c = f.constant(TN_DTYPE_f32, dims, bytes);
    f.node(TN_OP_mul, {x, c}, {f.output(TN_DTYPE_f32, {4})});
    return written(f).source;
  };
  CHECK(holds(program_with({2.5f}, {}), "f32_of(0x40200000u)"));
  CHECK(!holds(program_with({1, 1, 1, 1}, {4}), "constant1[]"));
  CHECK(holds(program_with({1, 2, 3, 4}, {4}),
              "constant1[] = {\n  0x3f800000u,0x40000000u,0x40400000u,0x40800000u,\n}"));
}
