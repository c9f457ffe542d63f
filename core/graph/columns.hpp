// SPDX-License-Identifier: Apache-2.0
// columns.hpp: the dtype and shape columns of ops.def as data.
//
// Invariant: a word of a column that inference does not know does not compile.
#pragma once

#include <tenon/types.hpp>

namespace tenon::graph {

enum class DtypeRule : uint8_t {
  FLOAT,
  NUMBER,
  ANY,
  COMPARE,
  LOGIC,
  SELECT,
  CAST,
  INDEX,
  NORM,
  LABEL,
  LOOKUP,
  RANDOM,
  UPDATE
};

enum class ShapeRule : uint8_t {
  BROADCAST,
  REDUCE,
  SAME,
  MATMUL,
  CONV,
  CONV_DATA,
  CONV_WEIGHT,
  POOL,
  POOL_GRAD,
  GLOBAL,
  BATCH_NORM,
  CHANNEL,
  ROW_NORM,
  LOSS,
  ATTENTION,
  EMBEDDING,
  EMBEDDING_GRAD,
  ONE_HOT,
  FROM_ATTRIBUTE,
  RESHAPE,
  TRANSPOSE,
  CONCAT,
  SLICE,
  PAD,
  UPDATE,
  GATHER,
  SCATTER,
  NONE
};

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
