// SPDX-License-Identifier: Apache-2.0
// types.hpp: element types and ops by name. Both come from the ABI's tables and know nothing of devices.
#pragma once

#include <tenon/fragment.h>
#include <tenon/export.hpp>
#include <tenon/result.hpp>

#include <cstdint>
#include <string_view>

namespace tenon {

// An element type. Values are the ABI's numbers.
enum class DType : uint32_t {
#define TN_DTYPE(number, name, bits, class) name##_ = number,
#include <tenon/dtypes.def>
};

inline constexpr DType boolean = DType::bool_, u8 = DType::u8_, i8 = DType::i8_, u16 = DType::u16_,
                       i16 = DType::i16_, u32 = DType::u32_, i32 = DType::i32_, u64 = DType::u64_,
                       i64 = DType::i64_, f16 = DType::f16_, bf16 = DType::bf16_, f32 = DType::f32_,
                       f64 = DType::f64_;

// An op. Values are the ABI's numbers; `Op::add`, `Op::matmul` …
enum class Op : uint32_t {
#define TN_OP(number, name, version, inputs_min, inputs_max, outputs, family, dtypes, shape, tolerance, \
              attributes, doc)                                                                          \
  name = number,
#include <tenon/ops.def>
};

// "f32"; "?" for a number that is not in the table. [any-thread; does not block; cannot fail]
TN_API std::string_view name(DType dtype) noexcept;
// "add"; "?" for a number that is not in the table. [any-thread; does not block; cannot fail]
TN_API std::string_view name(Op op) noexcept;
// Width of one element; 0 for an unknown type. [any-thread; does not block; cannot fail]
TN_API uint32_t bits(DType dtype) noexcept;
// Bytes that `elements` of `dtype` take, sub-byte types packed. [any-thread; does not block; cannot fail]
TN_API uint64_t bytes(DType dtype, uint64_t elements) noexcept;
// The type called `text`. TN_NOT_FOUND with the nearest name. [any-thread; does not block; may fail]
TN_API Result<DType> dtype_from(std::string_view text);
// The op called `text`. TN_NOT_FOUND with the nearest name. [any-thread; does not block; may fail]
TN_API Result<Op> op_from(std::string_view text);

}  // namespace tenon
