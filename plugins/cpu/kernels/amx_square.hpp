// SPDX-License-Identifier: Apache-2.0
// amx_square.hpp: the inner loops of a product on tiles: a square of 32 × 32 sums, and the result made of it.
//
// An operand is packed in panels of 32 items: for each 32 steps of depth two tiles, one after another.
// Invariant: sums are of f32, row by row without gaps, and nothing of a panel is read that does not belong to it.
#pragma once

#include "amx.hpp"

namespace tenon::cpu {

inline constexpr uint32_t square_elements = square_side * square_side;
inline constexpr uint32_t panel_step = 2 * tile_elements;  // elements of a panel over 32 steps of depth

struct PanelPair {
  const BF16 *left, *right;
  uint32_t steps;  // of 32
  // What the caches are told to fetch meanwhile; addresses need not be anyone's.
  const BF16* next_left;   // into the first: the panel of as many steps that comes after
  const std::byte* ahead;  // into the second: `ahead_lines` lines for each step
  uint32_t ahead_lines;
};
// sums = (where `accumulate`, itself +) left × right. Needs a ThreadTiles. [worker thread; does not block; cannot fail]
void multiply_panels(const PanelPair& panels, bool accumulate, float* sums) noexcept;

// sums += more.
void add_square(float* sums, const float* more) noexcept;

// The part of a square that a matrix of bf16 has room for, and what is computed on the way there.
struct SquareResult {
  const float* sums;
  uint32_t rows, columns;
  const BF16* bias;      // for each column, or null
  const BF16* residual;  // lies as the result, or null
  BF16* to;
  int64_t row;  // stride; columns lie side by side
};
// How squares of one activation are made. [worker thread; does not block; cannot fail]
struct SquareKernels {
  // sums + bias + residual, through the activation, rounded once.
  void (*finish)(const SquareResult& result) noexcept;
  // multiply_panels of one square, while another is finished: vectors are rounded as tiles are multiplied.
  void (*multiply_and_finish)(const PanelPair& panels, bool accumulate, float* sums,
                              const SquareResult& another) noexcept;
};
SquareKernels square_kernels(uint32_t activation, bool variant) noexcept;

}  // namespace tenon::cpu
