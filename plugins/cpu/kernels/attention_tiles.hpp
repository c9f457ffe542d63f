// SPDX-License-Identifier: Apache-2.0
// attention_tiles.hpp: the inner loops of attention on tiles of bf16.
//
// Invariant: as amx.hpp: a tile has no gaps.
#pragma once

#include "amx.hpp"
#include "attention_rows.hpp"

namespace tenon::cpu {

inline constexpr uint32_t tile_queries = queries_of<float>;  // two tiles side by side

// At most 32 rows of `width` numbers.
struct TileRows {
  const BF16* from;
  int64_t row;
  uint32_t rows, width;
};

// All need AVX-512.

// Keys as left operands: [2 tiles of keys][steps of 32 numbers].
void pack_keys(const TileRows& source, BF16* tiles) noexcept;
// Values turned, as left operands: [tiles of 16 numbers], each over 32 keys.
void pack_values(const TileRows& source, BF16* tiles) noexcept;
// Queries turned, as right operands: [steps of 32 numbers][2 tiles of queries].
void pack_queries(const TileRows& source, BF16* tiles) noexcept;

// The two products, whichever way the processor multiplies tiles.
struct TileProducts {
  // scores[key][tile_queries] = keys · queries. `keys` and `width` are of whole tiles.
  void (*scores)(const BF16* keys, const BF16* queries, uint32_t count, uint32_t width, float* scores);
  // sums[width][tile_queries] = (where `accumulate`, itself +) values · shares.
  void (*sums)(const BF16* values, const BF16* shares, uint32_t count, uint32_t width, bool accumulate,
               float* sums);
};
// On tile registers: driver::has_bf16_tiles(), and the thread has ThreadTiles. [any-thread; cannot fail]
const TileProducts& tile_products() noexcept;
// On vectors: driver::has_quick_bf16_pairs(). [any-thread; cannot fail]
const TileProducts& pair_products() noexcept;

// As AttentionLoops::soften, of scores · scale (> 0); the shares become right operands: [steps of 32 keys][2 tiles].
void tile_soften(const float* scores, uint32_t count, float scale, Softmax<float>& softmax,
                 BF16* shares) noexcept;

}  // namespace tenon::cpu
