// SPDX-License-Identifier: Apache-2.0
// names.hpp: names, widths and rows of dtypes and ops, straight from the two .def files.
//
// Invariant: a number the SDK does not know has the name "?" and no width; it is never an error to ask.
#pragma once

#include <tenon/fragment.h>

#include <string_view>

namespace tenon::author {

enum class DtypeClass { none, boolean, unsigned_integer, signed_integer, floating };

struct DtypeRow {
  std::string_view name;
  uint32_t bits;
  DtypeClass kind;
  bool reserved;  // has a number and a width, and no op takes it yet
};

// The row of a dtype. [any-thread; does not block; cannot fail]
constexpr DtypeRow dtype_row(uint32_t dtype) noexcept {
  constexpr DtypeClass BOOL = DtypeClass::boolean, UINT = DtypeClass::unsigned_integer,
                       INT = DtypeClass::signed_integer, FLOAT = DtypeClass::floating;
  switch (dtype) {
#define TN_DTYPE(number, name, bits, kind) \
  case number:                             \
    return {#name, bits, kind, false};
#define TN_DTYPE_RESERVED(number, name, bits, kind) \
  case number:                                      \
    return {#name, bits, kind, true};
#include <tenon/dtypes.def>
    default:
      return {"?", 0, DtypeClass::none, false};
  }
}

constexpr std::string_view dtype_name(uint32_t dtype) noexcept { return dtype_row(dtype).name; }
constexpr uint32_t dtype_bits(uint32_t dtype) noexcept { return dtype_row(dtype).bits; }
constexpr bool is_float(uint32_t dtype) noexcept { return dtype_row(dtype).kind == DtypeClass::floating; }
// Signed or unsigned; bool is none.
constexpr bool is_integer(uint32_t dtype) noexcept {
  const DtypeClass kind = dtype_row(dtype).kind;
  return kind == DtypeClass::unsigned_integer || kind == DtypeClass::signed_integer;
}

// How many bytes `elements` dense elements take; types under 8 bits are packed.
constexpr uint64_t dtype_bytes(uint32_t dtype, uint64_t elements) noexcept {
  return (elements * dtype_bits(dtype) + 7) / 8;
}

struct OpRow {
  std::string_view name;
  uint32_t version;                          // the newest this SDK knows
  uint32_t inputs_min, inputs_max, outputs;  // TN_OP_MANY: any number
  std::string_view family;                   // "BINARY"
};

// The row of an op. [any-thread; does not block; cannot fail]
constexpr OpRow op_row(uint32_t op) noexcept {
  switch (op) {
#define TN_OP(number, name, version, inputs_min, inputs_max, outputs, family, dtypes, shape, tolerance, \
              attributes, doc)                                                                          \
  case number:                                                                                          \
    return {#name, version, inputs_min, inputs_max, outputs, #family};
#include <tenon/ops.def>
    default:
      return {"?", 0, 0, 0, 0, "?"};
  }
}

constexpr std::string_view op_name(uint32_t op) noexcept { return op_row(op).name; }

}  // namespace tenon::author
