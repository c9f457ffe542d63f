// SPDX-License-Identifier: Apache-2.0
// strips.hpp: the inner loop of an f32 product: a strip of up to 14 rows by 32 columns whose sums stay in registers.
//
// Generated code (jit/strips.cpp), because a compiler moves sums to memory: 28 registers hold them, two the right operand's
// numbers, two what part of the rows multiply them with; the other rows take theirs from memory, so that neither loads nor
// instructions are what the sums wait for.
// Invariant: each sum is made in the order of the depth, one rounding a step.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::cpu {

inline constexpr uint32_t strip_rows = 14, strip_columns = 32;
inline constexpr uint32_t strip_pitch = 16;  // of packed rows: a line a step

// What the second cache is told to fetch meanwhile, a line with each step of depth; addresses need not be anyone's.
struct Lines {
  const void* at = nullptr;
  int64_t step = 64;  // in bytes
  int64_t count = 0;
};

struct StripJob {
  static constexpr uint32_t stretches = 4;
  // Row r of step k is left[k * left_step + r]; where rows lie apart, left[k + r * left_step].
  const float* left;
  const float* right;  // column j of step k is right[k * right_step + j]
  int64_t left_step, right_step;
  int64_t depth;
  float* to;    // strip_columns side by side
  int64_t row;  // from one row of `to` to the next
  Lines ahead[stretches];
};

struct StripKernels {
  using Function = void (*)(const StripJob* job);
  // [whether rows of `left` lie apart][rows][whether what is there is added to]
  Function of[2][strip_rows + 1][2] = {};
};

// nullptr where this processor, or build, or system has none (AVX-512, TENON_CPU_JIT, pages for code); whatever options say, and
// always the same. [any-thread; may block; cannot fail]
const StripKernels* strip_kernels() noexcept;

}  // namespace tenon::cpu
