// SPDX-License-Identifier: Apache-2.0
// amx.hpp: tiles of bf16 (AMX), the one set-up for all that multiplies them: their form, a worker's registers, packing.
//
// A tile is 16 rows of 64 bytes. A left operand's rows are 16 items of 32 numbers of depth; a right operand's rows are 16
// pairs of depth, each with the two numbers of 16 items side by side, as the processor wants them.
// Invariant: a tile has no gaps: what a tensor does not fill is 0.
#pragma once

#include "half.hpp"

#include <cstddef>

// A function that is compiled for processors with tiles, whatever the rest of the library is compiled for.
#define TENON_TILES \
  __attribute__((target("amx-tile,amx-bf16,avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

namespace tenon::cpu {

inline constexpr uint32_t tile_rows = 16, tile_depth = 32;         // of bf16
inline constexpr uint32_t tile_elements = tile_rows * tile_depth;  // 1 KiB
inline constexpr size_t tile_stride = 64;                          // bytes from row to row
inline constexpr uint32_t square_side = 2 * tile_rows;  // of the sums that the registers hold at once

// Rounded up to what fills tiles in either direction.
constexpr uint32_t whole_tiles(int64_t n) noexcept {
  return static_cast<uint32_t>((n + tile_depth - 1) / tile_depth * tile_depth);
}

// Holds a worker's tile registers for its life, each set up as a whole tile. This and all below need driver::
// has_bf16_tiles(). [one thread; does not block; cannot fail]
class ThreadTiles {
 public:
  ThreadTiles() noexcept;
  ThreadTiles(const ThreadTiles&) = delete;
  ThreadTiles& operator=(const ThreadTiles&) = delete;
  ~ThreadTiles();
};

// Loading a tile does not tell the compiler that it reads memory: what is to be read is written before this.
inline void meet_memory() noexcept { asm volatile("" ::: "memory"); }

// What goes into one tile: at most 16 items of at most 32 numbers.
struct TileSource {
  const BF16* from;
  int64_t stride;  // from item to item where the depth is near, else from one step of depth to the next
  uint32_t items, depth;
  bool depth_is_near;  // what lies side by side: the numbers of an item, or the items
};
// [any-thread; does not block; cannot fail]
void pack_left(const TileSource& source, BF16* tile) noexcept;
void pack_right(const TileSource& source, BF16* tile) noexcept;

}  // namespace tenon::cpu
