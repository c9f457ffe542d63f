// SPDX-License-Identifier: Apache-2.0
// half_rows.hpp: rows of f16 and bf16 to f32 and back, as fast as the processor can.
//
// Invariant: as half.hpp: widening is exact, narrowing rounds once, to nearest even.
#pragma once

#include <cstdint>

namespace tenon::cpu {

using WidenRow = void (*)(const void* from, float* to, uint64_t n);
using NarrowRow = void (*)(const float* from, void* to, uint64_t n);

// Of f16 or bf16; nullptr for any other type. [any-thread; does not block; cannot fail]
WidenRow widen_row(uint32_t dtype) noexcept;
NarrowRow narrow_row(uint32_t dtype) noexcept;
// narrow_row of values that the half type holds.
NarrowRow pack_row(uint32_t dtype) noexcept;

}  // namespace tenon::cpu
