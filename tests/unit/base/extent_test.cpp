// SPDX-License-Identifier: Apache-2.0
// Sizes of tensors, with dims nobody should give.
#include "base/extent.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace base = tenon::base;
using Dims = std::vector<int64_t>;

namespace {
base::Extent extent(const Dims& dims, const Dims& strides = {}, uint32_t bits = 32) {
  return base::extent_of(dims, strides, bits);
}
}  // namespace

TEST_CASE("extent: dense tensors take the product of their dims") {
  CHECK(extent({2, 3, 4}).elements == 24);
  CHECK(extent({2, 3, 4}).bytes == 96);
  CHECK(extent({}).elements == 1);
  CHECK(extent({}).bytes == 4);
  CHECK(extent({3}, {}, 4).bytes == 2);  // three 4-bit elements
}

TEST_CASE("extent: strided tensors take what lies between first and last") {
  CHECK(extent({2, 3}, {10, 2}).bytes == (1 + 10 + 4) * 4);
  CHECK(extent({1000, 1000}, {0, 0}).bytes == 4);
  CHECK(extent({1000, 1000}, {0, 0}).elements == 1'000'000);
  CHECK(extent({4, 4}, {1, 4}).bytes == 64);
}

TEST_CASE("extent: a zero dim empties the tensor, whatever the others are") {
  CHECK(extent({0}).elements == 0);
  CHECK(extent({0}).bytes == 0);
  CHECK(extent({INT64_MAX, 0, INT64_MAX}).bytes == 0);
  CHECK_FALSE(extent({INT64_MAX, 0, INT64_MAX}).too_large);
  CHECK(extent({5, 0}, {1, 1}).bytes == 0);
}

TEST_CASE("extent: what does not fit is flagged and never wraps around") {
  CHECK(extent({INT64_MAX, INT64_MAX}).too_large);
  CHECK(extent({int64_t{1} << 32, int64_t{1} << 32}).too_large);
  CHECK(extent({INT64_MAX}).too_large);  // times four bytes
  CHECK_FALSE(extent({INT64_MAX}, {}, 8).too_large);
  CHECK(extent({2, 2}, {INT64_MAX, INT64_MAX}).too_large);
  CHECK(extent({-1}).too_large);
  CHECK(extent({2}, {-1}).too_large);
  CHECK(base::element_count(Dims{INT64_MAX, INT64_MAX, 7}) == static_cast<uint64_t>(INT64_MAX));
  CHECK(base::packed_bytes(UINT64_MAX, 64) == static_cast<uint64_t>(INT64_MAX));
}

TEST_CASE("extent: a tensor of the ABI gives the same figures") {
  const int64_t dims[] = {2, 5}, strides[] = {8, 1};
  tn_tensor tensor{};
  tensor.dtype = TN_DTYPE_f64;
  tensor.rank = 2;
  tensor.dims = dims;
  CHECK(base::extent_of(tensor).bytes == 80);
  tensor.strides = strides;
  CHECK(base::extent_of(tensor).bytes == (1 + 8 + 4) * 8);
}
