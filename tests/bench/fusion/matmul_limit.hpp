// SPDX-License-Identifier: Apache-2.0
// matmul_limit.hpp: how many multiplications and additions this machine does, on both threads, from registers.
//
// Invariant: nothing but registers is touched, so what it takes depends on the processor alone.
#pragma once

#include <cstdint>

namespace bench {

// The operations (a multiplication and an addition are two) of one multiply_adds().
inline constexpr double multiply_add_flops = 2.0 * 12 * 16 * 2 * (1 << 20);
// Returns a number of no meaning, so that the work is wanted.
float multiply_adds();

// The same of pairs of bf16, summed in f32, where vectors multiply them and are the fastest to do so.
bool multiplies_pairs() noexcept;
inline constexpr double multiply_add_pairs_flops = 2 * multiply_add_flops;
float multiply_add_pairs();

}  // namespace bench
