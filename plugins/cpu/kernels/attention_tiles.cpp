// SPDX-License-Identifier: Apache-2.0
// attention_tiles.cpp: the loops, on tile registers 0 to 3 for sums, 4 and 5 for left, 6 and 7 for right operands.
//
// Invariant: what a tile of keys or numbers has too many is 0.
#include "attention_tiles.hpp"

#include "amx_sums.hpp"
#include "attention_vector.hpp"

#include <algorithm>
#include <limits>

#if defined(__x86_64__)

#include <immintrin.h>

namespace tenon::cpu {
namespace {

static_assert(tile_queries == square_side);

// 2^x for x of at most 0, to 3e-6 of it, where a bf16 tells 4e-3 apart: the polynomial of degree 4 that is off least, in parts of its
// value, above the next lower integer. Below -125, -∞ included, it is 2^-125: a subnormal number costs the processor a hundred cycles.
// NaN stays NaN.
[[gnu::always_inline]] TENON_TILES inline __m512 share_of(__m512 x) noexcept {
  constexpr float terms[] = {1.00000262f, 0.693003833f, 0.241442755f, 0.0520114601f, 0.0135341678f};
  constexpr int down = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  const __m512 bounded = _mm512_max_ps(_mm512_set1_ps(-125.0f), x), part = _mm512_reduce_ps(bounded, down);
  __m512 series = _mm512_set1_ps(terms[4]);
#pragma GCC unroll 8
  for (int k = 3; k >= 0; --k) series = _mm512_fmadd_ps(series, part, _mm512_set1_ps(terms[k]));
  return _mm512_scalef_ps(series, bounded);
}

// The bf16 next to each share, ties away from 0: of `even` in the low half of each word, of `odd` in the high one.
[[gnu::always_inline]] TENON_TILES inline __m512i round_pairs(__m512 even, __m512 odd) noexcept {
  const __m512i half = _mm512_set1_epi32(0x8000), low = _mm512_add_epi32(_mm512_castps_si512(even), half),
                high = _mm512_add_epi32(_mm512_castps_si512(odd), half);
  return _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(low, 16), high);
}

// What is left of n after `first`, at most `most`.
uint32_t left_of(uint32_t n, uint32_t first, uint32_t most) noexcept {
  return n > first ? std::min(most, n - first) : 0;
}

// The tile of rows from `row` and numbers from `first` on.
TileSource tile_at(const TileRows& s, uint32_t row, uint32_t first) noexcept {
  return {.from = s.from + row * s.row + first,
          .stride = s.row,
          .items = left_of(s.rows, row, tile_rows),
          .depth = left_of(s.width, first, tile_depth),
          .depth_is_near = true};
}

// sums += one step of depth of two left operands × two right ones that lie side by side.
TENON_TILES inline void add_products(const BF16* upper, const BF16* lower, const BF16* right) noexcept {
  _tile_loadd(4, upper, tile_stride);
  _tile_loadd(5, lower, tile_stride);
  _tile_loadd(6, right, tile_stride);
  _tile_loadd(7, right + tile_elements, tile_stride);
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

TENON_TILES void scores(const BF16* keys, const BF16* queries, uint32_t count, uint32_t width,
                        float* out) noexcept {
  meet_memory();
  const uint32_t steps = width / tile_depth;
  for (uint32_t key = 0; key < count; key += 2 * tile_rows) {
    zero_sums();
    const BF16* const upper = keys + static_cast<size_t>(key / tile_rows) * steps * tile_elements;
    const BF16* const lower = upper + static_cast<size_t>(steps) * tile_elements;
    for (uint32_t step = 0; step < steps; ++step)
      add_products(upper + step * tile_elements, lower + step * tile_elements,
                   queries + 2 * step * tile_elements);
    store_sums(out + key * tile_queries);
  }
}

TENON_TILES void sums(const BF16* values, const BF16* shares, uint32_t count, uint32_t width, bool accumulate,
                      float* out) noexcept {
  meet_memory();
  const uint32_t tiles = width / tile_rows;
  for (uint32_t tile = 0; tile < tiles; tile += 2) {
    float* const square = out + tile * tile_rows * tile_queries;
    if (accumulate)
      load_sums(square);
    else
      zero_sums();
    for (uint32_t step = 0; step < count / tile_depth; ++step) {
      const BF16* const left = values + (static_cast<size_t>(step) * tiles + tile) * tile_elements;
      add_products(left, left + tile_elements, shares + 2 * step * tile_elements);
    }
    store_sums(square);
  }
}

}  // namespace

const TileProducts& tile_products() noexcept {
  static constexpr TileProducts own{.scores = scores, .sums = sums};
  return own;
}

void pack_keys(const TileRows& source, BF16* tiles) noexcept {
  for (uint32_t half = 0; half < 2; ++half) {
    for (uint32_t first = 0; first < source.width; first += tile_depth, tiles += tile_elements)
      pack_left(tile_at(source, half * tile_rows, first), tiles);
  }
}

void pack_values(const TileRows& source, BF16* tiles) noexcept {
  for (uint32_t first = 0; first < whole_tiles(source.width); first += tile_rows, tiles += tile_elements) {
    pack_left({.from = source.from + first,
               .stride = source.row,
               .items = left_of(source.width, first, tile_rows),
               .depth = source.rows,
               .depth_is_near = false},
              tiles);
  }
}

void pack_queries(const TileRows& source, BF16* tiles) noexcept {
  for (uint32_t first = 0; first < source.width; first += tile_depth) {
    for (uint32_t half = 0; half < 2; ++half, tiles += tile_elements)
      pack_right(tile_at(source, half * tile_rows, first), tiles);
  }
}

TENON_TILES void tile_soften(const float* scores, uint32_t count, float scale, Softmax<float>& softmax,
                             BF16* shares) noexcept {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (uint32_t v = 0; v < 2; ++v) {
    const float* const column = scores + v * lanes<float>;
    Vector<float> before, even = Vector<float>{} - infinity, odd = even, x, y;
    for (uint32_t key = 0; key < count; key += 2) {
      load(x, column + key * tile_queries);
      load(y, column + (key + 1) * tile_queries);
      even = x > even ? x : even;
      odd = y > odd ? y : odd;
    }
    load(before, softmax.largest + v * lanes<float>);
    const Vector<float> now = (even > odd ? even : odd) * scale;
    const Vector<float> largest = now > before ? now : before;
    const Vector<float> base = largest == -infinity ? Vector<float>{} : largest;
    Vector<float> shrink, sum;
    exp2_below<float, true>(shrink, before - base);
    load(sum, softmax.sum + v * lanes<float>);
    sum *= shrink;
    store(softmax.largest + v * lanes<float>, largest);
    store(softmax.shrink + v * lanes<float>, shrink);
    for (uint32_t key = 0; key < count; key += 2) {
      load(x, column + key * tile_queries);
      load(y, column + (key + 1) * tile_queries);
      const __m512 even_share = share_of((__m512)(x * scale - base)),
                   odd_share = share_of((__m512)(y * scale - base));
      sum += (Vector<float>)_mm512_add_ps(even_share, odd_share);
      BF16* const to =
          shares + (key / tile_depth * 2 + v) * tile_elements + key % tile_depth / 2 * tile_depth;
      _mm512_storeu_si512(to, round_pairs(even_share, odd_share));
    }
    store(softmax.sum + v * lanes<float>, sum);
  }
}

}  // namespace tenon::cpu

#endif
