// SPDX-License-Identifier: Apache-2.0
// op_columns.hpp: the dtype, shape and attribute columns of ops.def, as values to switch over.
//
// Invariant: a column's entry has the name that ops.def gives it; an op that the SDK does not know has NONE and no
// attributes.
#pragma once

#include <tenon/author/names.hpp>

namespace tenon::author {

enum class DtypeColumn {
  NONE,
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

enum class ShapeColumn {
  NONE,
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
  SCATTER
};

struct OpColumns {
  DtypeColumn dtypes;
  ShapeColumn shape;
  std::string_view attributes;  // "axes:ints; keepdims:int=0"
};

// The columns of an op. [any-thread; does not block; cannot fail]
constexpr OpColumns op_columns(uint32_t op) noexcept {
  switch (op) {
#define TN_OP(number, name, version, least, most, outputs, family, dtypes, shape, tolerance, attributes, \
              doc)                                                                                       \
  case number:                                                                                           \
    return {DtypeColumn::dtypes, ShapeColumn::shape, attributes};
#include <tenon/ops.def>
    default:
      return {DtypeColumn::NONE, ShapeColumn::NONE, ""};
  }
}

// One attribute of an op: its name, and the tn_attribute.kind that it has.
struct AttributeRow {
  std::string_view name;
  uint32_t kind;
};

// Takes the first row off an attribute column, which must not be empty. [any-thread; does not block; cannot fail]
constexpr AttributeRow next_attribute(std::string_view& column) noexcept {
  const size_t end = column.find(';') < column.size() ? column.find(';') : column.size();
  std::string_view one = column.substr(0, end);
  column.remove_prefix(end < column.size() ? end + 1 : end);
  while (one.starts_with(' ')) one.remove_prefix(1);
  const std::string_view name = one.substr(0, one.find(':')), type = one.substr(one.find(':') + 1);
  if (type.starts_with("ints")) return {name, TN_ATTRIBUTE_I64S};
  if (type.starts_with("int")) return {name, TN_ATTRIBUTE_I64};
  if (type.starts_with("float")) return {name, TN_ATTRIBUTE_F64};
  return {name, type.starts_with("string") ? TN_ATTRIBUTE_STRING : TN_ATTRIBUTE_DTYPE};
}

}  // namespace tenon::author
