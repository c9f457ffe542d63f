// SPDX-License-Identifier: Apache-2.0
// amx.cpp: tile registers, and the packing of tiles.
//
// Numbers that lie along the depth are lines, 32 of an item; numbers of items side by side are pairs, two steps of depth of
// 16 items. Lines are a left operand's rows and pairs a right one's; turning a square of words makes one of the other.
// Invariant: tile registers hold something between ThreadTiles' beginning and its end alone.
#include "amx.hpp"

#if defined(__x86_64__)

#include "attention_vector.hpp"

#include <algorithm>

namespace tenon::cpu {
namespace {

typedef uint32_t Words __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));

struct alignas(64) TileLayout {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// The first n of `most` numbers of two bytes, zeros after them.
template <uint32_t most, class Out>
[[gnu::always_inline]] inline void load_numbers(Out& out, const BF16* from, uint32_t n) {
  static_assert(sizeof out == most * sizeof(BF16));
  if (n == most) {
    std::memcpy(&out, from, sizeof out);
    return;
  }
  alignas(64) BF16 line[most] = {};
  std::memcpy(line, from, n * sizeof(BF16));
  std::memcpy(&out, line, sizeof out);
}

[[gnu::always_inline]] inline void load_line(Vector<float>& out, const TileSource& s, uint32_t item) {
  out = Vector<float>{};
  if (item < s.items) load_numbers<tile_depth>(out, s.from + item * s.stride, s.depth);
}

// The first step's number in the low half of each word.
[[gnu::always_inline]] inline void load_pair(Vector<float>& out, const TileSource& s, uint32_t pair) {
  Halves half[2] = {};
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t step = 2 * pair + i;
    if (step < s.depth) load_numbers<tile_rows>(half[i], s.from + step * s.stride, s.items);
  }
  out = (Vector<float>)(__builtin_convertvector(half[0], Words) | __builtin_convertvector(half[1], Words)
                                                                      << 16);
}

[[gnu::always_inline]] inline void load_square(Vector<float>* square, const TileSource& source) {
  for (uint32_t row = 0; row < tile_rows; ++row) {
    if (source.depth_is_near)
      load_line(square[row], source, row);
    else
      load_pair(square[row], source, row);
  }
}

[[gnu::always_inline]] inline void store_square(const Vector<float>* square, BF16* tile) {
  for (uint32_t row = 0; row < tile_rows; ++row)
    store(reinterpret_cast<float*>(tile + row * tile_depth), square[row]);
}

}  // namespace

ThreadTiles::ThreadTiles() noexcept {
  TileLayout layout;
  for (uint32_t i = 0; i < 8; ++i) {
    layout.row_bytes[i] = tile_stride;
    layout.rows[i] = tile_rows;
  }
  // The intrinsic would tell the compiler of the layout's first bytes alone.
  asm volatile("ldtilecfg %0" : : "m"(layout));
}

ThreadTiles::~ThreadTiles() { asm volatile("tilerelease"); }

TENON_TILES void pack_left(const TileSource& source, BF16* tile) noexcept {
  Vector<float> square[tile_rows];
  load_square(square, source);
  if (!source.depth_is_near) turn<float>(square);
  store_square(square, tile);
}

TENON_TILES void pack_right(const TileSource& source, BF16* tile) noexcept {
  Vector<float> square[tile_rows];
  load_square(square, source);
  if (source.depth_is_near) turn<float>(square);
  store_square(square, tile);
}

}  // namespace tenon::cpu

#endif
