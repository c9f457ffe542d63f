// SPDX-License-Identifier: Apache-2.0
// attention_pairs.cpp: the two products of attention on vectors of pairs of bf16 (AVX512-BF16), over tiles as amx.hpp packs
// them.
//
// Sums of 8 rows × 32 columns stay in registers over the whole depth: a pair of a left tile meets a row of both right tiles.
// Invariant: as attention_tiles.cpp: a sum's terms are added in the order of the depth, whatever the threads.
#include "attention_tiles.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#define TENON_PAIRS __attribute__((target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

namespace tenon::cpu {
namespace {

constexpr uint32_t rows_at_once = 8, pairs = tile_depth / 2;

// Eight rows of left tiles that lie `left_step` elements apart, times two right tiles for each step.
struct Rows {
  const BF16* left;
  size_t left_step;
  const BF16* right;
  uint32_t steps;
};

TENON_PAIRS inline __m512bh load_pairs(const BF16* from) noexcept {
  return (__m512bh)_mm512_loadu_si512(from);
}
TENON_PAIRS inline __m512bh repeat_pair(const BF16* from) noexcept {
  int pair;
  std::memcpy(&pair, from, sizeof pair);
  return (__m512bh)_mm512_set1_epi32(pair);
}

TENON_PAIRS void multiply_rows(const Rows& rows, bool accumulate, float* out) noexcept {
  __m512 sums[rows_at_once][2];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < rows_at_once; ++r) {
    for (uint32_t v = 0; v < 2; ++v)
      sums[r][v] = accumulate ? _mm512_loadu_ps(out + r * square_side + v * tile_rows) : _mm512_setzero_ps();
  }
  for (uint32_t step = 0; step < rows.steps; ++step) {
    const BF16* const left = rows.left + step * rows.left_step;
    const BF16* const right = rows.right + size_t{2} * step * tile_elements;
    for (uint32_t pair = 0; pair < pairs; ++pair) {
      const __m512bh first = load_pairs(right + pair * tile_depth),
                     second = load_pairs(right + tile_elements + pair * tile_depth);
#pragma GCC unroll 8
      for (uint32_t r = 0; r < rows_at_once; ++r) {
        const __m512bh one = repeat_pair(left + r * tile_depth + 2 * pair);
        sums[r][0] = _mm512_dpbf16_ps(sums[r][0], one, first);
        sums[r][1] = _mm512_dpbf16_ps(sums[r][1], one, second);
      }
    }
  }
#pragma GCC unroll 8
  for (uint32_t r = 0; r < rows_at_once; ++r) {
    for (uint32_t v = 0; v < 2; ++v) _mm512_storeu_ps(out + r * square_side + v * tile_rows, sums[r][v]);
  }
}

// One left tile beside two right ones: 16 rows of sums.
void multiply_tile(const Rows& rows, bool accumulate, float* out) noexcept {
  for (uint32_t row = 0; row < tile_rows; row += rows_at_once)
    multiply_rows({rows.left + row * tile_depth, rows.left_step, rows.right, rows.steps}, accumulate,
                  out + row * square_side);
}

void scores(const BF16* keys, const BF16* queries, uint32_t count, uint32_t width, float* out) noexcept {
  const uint32_t steps = width / tile_depth;
  for (uint32_t key = 0; key < count; key += tile_rows)
    multiply_tile({keys + size_t{key} * width, tile_elements, queries, steps}, false,
                  out + key * tile_queries);
}

void sums(const BF16* values, const BF16* shares, uint32_t count, uint32_t width, bool accumulate,
          float* out) noexcept {
  const uint32_t tiles = width / tile_rows;
  for (uint32_t tile = 0; tile < tiles; ++tile)
    multiply_tile({values + tile * tile_elements, size_t{tiles} * tile_elements, shares, count / tile_depth},
                  accumulate, out + tile * tile_rows * tile_queries);
}

}  // namespace

const TileProducts& pair_products() noexcept {
  static constexpr TileProducts own{.scores = scores, .sums = sums};
  return own;
}

}  // namespace tenon::cpu

#endif
