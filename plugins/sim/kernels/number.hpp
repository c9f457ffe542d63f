// SPDX-License-Identifier: Apache-2.0
// number.hpp: elements of every dtype as numbers: floats as double, integers as 64 bits that wrap.
//
// Invariant: reading is exact. Writing a float rounds once, to nearest even; writing an integer keeps its low bits.
#pragma once

#include <tenon/author/names.hpp>

#include <cstddef>
#include <cstdint>

namespace tenon::sim {

constexpr bool is_real(uint32_t dtype) noexcept { return author::is_float(dtype); }
constexpr bool is_signed(uint32_t dtype) noexcept {
  return author::dtype_row(dtype).kind == author::DtypeClass::signed_integer;
}
constexpr uint32_t bytes_of(uint32_t dtype) noexcept { return author::dtype_bits(dtype) / 8; }

// What sums are kept in, so that the one rounding of a result is all there is, of f64 too.
using Wide = long double;

// [any-thread; does not block; cannot fail]
double load_real(uint32_t dtype, const std::byte* at) noexcept;
void store_real(uint32_t dtype, std::byte* at, long double value) noexcept;
// Sign-extended where the type has a sign.
uint64_t load_bits(uint32_t dtype, const std::byte* at) noexcept;
void store_bits(uint32_t dtype, std::byte* at, uint64_t value) noexcept;

// From a real to an integer as `cast` says: truncated, saturated, NaN is 0.
uint64_t saturate(uint32_t dtype, double value) noexcept;

}  // namespace tenon::sim
