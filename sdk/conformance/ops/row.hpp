// SPDX-License-Identifier: Apache-2.0
// row.hpp: the rows of ops.def and dtypes.def as data: what cases are made from.
//
// Invariant: nothing here is written twice: a row added to ops.def is a row here, and a column's word that this kit does
// not know does not compile.
#pragma once

#include <tenon/author/names.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::conform {

enum class Family {
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
enum class DtypeRule {
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
enum class ShapeRule {
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
enum class Tolerance { EXACT, ROUND, MATH, SUM };

struct Row {
  uint32_t op;
  const char* name;
  uint32_t version, inputs_min, inputs_max, outputs;
  Family family;
  DtypeRule dtypes;
  ShapeRule shape;
  Tolerance tolerance;
  const char* attributes;  // "axes:ints; keepdims:int=0"
};

inline constexpr Row op_rows[] = {
#define TN_OP(number, name, version, least, most, outputs, family, dtypes, shape, tolerance, attributes, \
              meaning)                                                                                   \
  {number,                                                                                               \
   #name,                                                                                                \
   version,                                                                                              \
   least,                                                                                                \
   most,                                                                                                 \
   outputs,                                                                                              \
   Family::family,                                                                                       \
   DtypeRule::dtypes,                                                                                    \
   ShapeRule::shape,                                                                                     \
   Tolerance::tolerance,                                                                                 \
   attributes},
#include <tenon/ops.def>
};

// An attribute of a row: what stands between its semicolons.
struct AttributeRow {
  std::string_view name, type, fallback;
  bool required = false;
};

// Whether level 1 has cases for the row: a node that talks to other ranks is level 3's.
constexpr bool is_single(const Row& row) noexcept { return row.family != Family::COLLECTIVE; }
// The row called `name` or numbered `op`, or null. [any-thread; does not block; cannot fail]
const Row* find_row(std::string_view name) noexcept;
const Row* find_row(uint32_t op) noexcept;
// The number of the dtype called `name`, or TN_DTYPE_NONE. [any-thread; does not block; cannot fail]
uint32_t find_dtype(std::string_view name) noexcept;
// The dtypes that ops take, by number; reserved ones are not among them. [any-thread; does not block; cannot fail]
std::span<const uint32_t> all_dtypes() noexcept;
// The types a row's cases are about: that of its first float or number operand; a cast's, what it casts from.
// [any-thread; does not block; may throw bad_alloc]
std::vector<uint32_t> subjects(const Row& row);
// The row's attributes, in the order of the row. [any-thread; does not block; may throw bad_alloc]
std::vector<AttributeRow> attributes_of(const Row& row);

}  // namespace tenon::conform
