// SPDX-License-Identifier: Apache-2.0
// columns.hpp: the dtype and shape columns of ops.def as data.
//
// Invariant: a word of a column that inference does not know does not compile.
#pragma once

#include <tenon/author/op_columns.hpp>
#include <tenon/types.hpp>

namespace tenon::graph {

using DtypeRule = author::DtypeColumn;
using ShapeRule = author::ShapeColumn;

enum class Family : uint8_t {
  UNARY,
  BINARY,
  TERNARY,
  REDUCTION,
  MATMUL,
  CONV,
  POOL,
  NORM,
  SOFTMAX,
  LOSS,
  ATTENTION,
  INDEXING,
  RANDOM,
  MOVEMENT,
  OPTIMIZER,
  SCALING,
  COLLECTIVE
};

struct Columns {
  Family family;
  DtypeRule dtypes;
  ShapeRule shape;
};

// Of an op that is in the table. [any-thread; does not block; cannot fail]
Columns columns_of(Op op) noexcept;

enum class DtypeClass : uint8_t { BOOL, UINT, INT, FLOAT, NONE };
DtypeClass class_of(DType dtype) noexcept;
inline bool is_float(DType dtype) noexcept { return class_of(dtype) == DtypeClass::FLOAT; }
inline bool is_integer(DType dtype) noexcept {
  return class_of(dtype) == DtypeClass::INT || class_of(dtype) == DtypeClass::UINT;
}

}  // namespace tenon::graph
