// SPDX-License-Identifier: Apache-2.0
// Element types and ops by name and number.
#include <tenon/types.hpp>
#include <tenon/version.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace tenon;

TEST_CASE("types: every element type is found again by its name") {
#define TN_DTYPE(number, called, width, class)        \
  CHECK(name(static_cast<DType>(number)) == #called); \
  CHECK(bits(static_cast<DType>(number)) == width);   \
  REQUIRE(dtype_from(#called).ok());                  \
  CHECK(*dtype_from(#called) == static_cast<DType>(number));
#include <tenon/dtypes.def>
}

TEST_CASE("types: every op is found again by its name") {
#define TN_OP(number, called, version, inputs_min, inputs_max, outputs, family, dtypes, shape, tolerance, \
              attributes, doc)                                                                            \
  CHECK(name(static_cast<Op>(number)) == #called);                                                        \
  REQUIRE(op_from(#called).ok());                                                                         \
  CHECK(*op_from(#called) == static_cast<Op>(number));
#include <tenon/ops.def>
}

TEST_CASE("types: a number outside the table is a question mark of no width") {
  CHECK(name(DType{}) == "?");
  CHECK(name(static_cast<DType>(999)) == "?");
  CHECK(name(Op{}) == "?");
  CHECK(bits(static_cast<DType>(999)) == 0);
}

TEST_CASE("types: a wrong name gets the nearest one") {
  const auto dtype = dtype_from("fp32");
  CHECK(dtype.code() == TN_NOT_FOUND);
  CHECK(std::string(dtype.message()).find("did you mean 'f32'?") != std::string::npos);
  const auto op = op_from("mat_mul");
  CHECK(op.code() == TN_NOT_FOUND);
  CHECK(std::string(op.message()).find("did you mean 'matmul'?") != std::string::npos);
}

TEST_CASE("types: sub-byte elements pack") {
  CHECK(bytes(f32, 3) == 12);
  CHECK(bytes(boolean, 3) == 3);
  CHECK(bytes(DType::i4_, 3) == 2);
  CHECK(bytes(f64, 0) == 0);
  CHECK(bytes(f64, UINT64_MAX) == static_cast<uint64_t>(INT64_MAX));
}

TEST_CASE("version: the library tells the version it was built as") {
  CHECK(std::string(version()) == TENON_VERSION);
}
