// SPDX-License-Identifier: Apache-2.0
// amx_sums.hpp: a square of 32 × 32 sums in tile registers 0 to 3.
//
// Invariant: 4 and 5 are left for left operands, 6 and 7 for right ones. Only files that loop over tiles include it.
#pragma once

#include "amx.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

namespace tenon::cpu {

inline constexpr size_t sum_stride = square_side * sizeof(float);

// All need a ThreadTiles.

TENON_TILES inline void load_sums(const float* sums) noexcept {
  _tile_loadd(0, sums, sum_stride);
  _tile_loadd(1, sums + tile_rows, sum_stride);
  _tile_loadd(2, sums + tile_rows * square_side, sum_stride);
  _tile_loadd(3, sums + tile_rows * square_side + tile_rows, sum_stride);
}

TENON_TILES inline void zero_sums() noexcept {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

TENON_TILES inline void store_sums(float* sums) noexcept {
  _tile_stored(0, sums, sum_stride);
  _tile_stored(1, sums + tile_rows, sum_stride);
  _tile_stored(2, sums + tile_rows * square_side, sum_stride);
  _tile_stored(3, sums + tile_rows * square_side + tile_rows, sum_stride);
}

}  // namespace tenon::cpu

#endif
