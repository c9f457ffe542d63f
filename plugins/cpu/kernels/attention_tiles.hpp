// SPDX-License-Identifier: Apache-2.0
// attention_tiles.hpp: the inner loops of attention on tiles: 16 rows of 64 bytes, one after another.
//
// Left operands lie row by row, 32 numbers a row; right ones in pairs of rows, as the processor wants them.
// Invariant: a tile has no gaps: what a tensor does not fill is 0.
#pragma once

#include "attention_rows.hpp"
#include "half.hpp"

namespace tenon::cpu {

inline constexpr uint32_t tile_rows = 16, tile_depth = 32;         // of bf16
inline constexpr uint32_t tile_elements = tile_rows * tile_depth;  // 1 KiB
inline constexpr uint32_t tile_queries = queries_of<float>;        // two tiles side by side

constexpr uint32_t whole_tiles(int64_t n) noexcept {
  return static_cast<uint32_t>((n + tile_depth - 1) / tile_depth * tile_depth);
}

// `rows` ≤ 32 rows of `width` numbers.
struct TileSource {
  const BF16* from;
  int64_t row;
  uint32_t rows, width;
};

// All need a processor that runs them; thread_tiles holds a worker's tile registers for its life.
class ThreadTiles {
 public:
  ThreadTiles() noexcept;
  ThreadTiles(const ThreadTiles&) = delete;
  ThreadTiles& operator=(const ThreadTiles&) = delete;
  ~ThreadTiles();
};

// Keys as left operands: [2 tiles of keys][steps of 32 numbers].
void pack_keys(const TileSource& source, BF16* tiles) noexcept;
// Values turned, as left operands: [tiles of 16 numbers], each over 32 keys.
void pack_values(const TileSource& source, BF16* tiles) noexcept;
// Queries turned, as right operands: [steps of 32 numbers][2 tiles of queries].
void pack_queries(const TileSource& source, BF16* tiles) noexcept;

// scores[key][tile_queries] = keys · queries. `keys` and `width` are of whole tiles.
void tile_scores(const BF16* keys, const BF16* queries, uint32_t count, uint32_t width,
                 float* scores) noexcept;
// sums[width][tile_queries] = (where `accumulate`, itself +) values · shares.
void tile_sums(const BF16* values, const BF16* shares, uint32_t count, uint32_t width, bool accumulate,
               float* sums) noexcept;
// As AttentionLoops::soften, of scores · scale (> 0); the shares become right operands: [steps of 32 keys][2 tiles].
void tile_soften(const float* scores, uint32_t count, float scale, Softmax<float>& softmax,
                 BF16* shares) noexcept;

}  // namespace tenon::cpu
