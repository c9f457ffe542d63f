// SPDX-License-Identifier: Apache-2.0
// columns.cpp: see columns.hpp.
#include "graph/columns.hpp"

namespace tenon::graph {

Columns columns_of(Op op) noexcept {
  switch (op) {
#define TN_OP(number, name, version, inputs_min, inputs_max, outputs, family, dtypes, shape, tolerance, \
              attributes, doc)                                                                          \
  case Op::name:                                                                                        \
    return {Family::family, DtypeRule::dtypes, ShapeRule::shape};
#include <tenon/ops.def>
  }
  return {Family::UNARY, DtypeRule::ANY, ShapeRule::NONE};
}

DtypeClass class_of(DType dtype) noexcept {
  switch (static_cast<uint32_t>(dtype)) {
#define TN_DTYPE(number, name, bits, kind) \
  case number:                             \
    return DtypeClass::kind;
#include <tenon/dtypes.def>
    default:
      return DtypeClass::NONE;
  }
}

}  // namespace tenon::graph
