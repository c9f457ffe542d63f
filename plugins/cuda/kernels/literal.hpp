// SPDX-License-Identifier: Apache-2.0
// literal.hpp: numbers and types as the source spells them.
//
// Invariant: a number is written by its bits, so it arrives as it was.
#pragma once

#include <tenon/author/fragment_view.hpp>

#include <optional>
#include <string>

namespace tenon::cuda {

// How a dtype lies in memory ("f16", "b8") and what it is computed in ("f32", "bool").
const char* stored_type(uint32_t dtype) noexcept;
const char* register_type(uint32_t dtype) noexcept;
inline uint32_t bytes_of(uint32_t dtype) noexcept { return author::dtype_bits(dtype) / 8; }
inline bool is_half(uint32_t dtype) noexcept { return dtype == TN_DTYPE_f16 || dtype == TN_DTYPE_bf16; }

// `value` as an element of `dtype`: rounded to nearest even, or wrapped.
uint64_t bits_of(uint32_t dtype, double value) noexcept;
// "f32_of(0x3f800000u)": what element `bits` of `dtype` is in its register type.
std::string literal(uint32_t dtype, uint64_t bits);
// "f64_of(0x…ull)"
std::string literal(double value);

// The one value that all elements of a constant tensor have. [any-thread; does not block; cannot fail]
std::optional<uint64_t> repeated_bits(const author::TensorView& tensor) noexcept;
// "__device__ const u32 name[] = {…};": the bytes of a constant tensor, aligned to 16.
std::string constant_array(const std::string& name, const author::TensorView& tensor);

}  // namespace tenon::cuda
