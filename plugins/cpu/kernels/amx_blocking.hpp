// SPDX-License-Identifier: Apache-2.0
// amx_blocking.hpp: how a product on tiles is cut into tasks, by the sizes of the caches and the number of threads.
//
// A right panel over a block of depth is at most 32 KiB and stays in the first cache, while the block's left panels (at
// most 256 KiB) come from the second, beside the block's sums (512 KiB) and what is fetched for the next block of depth.
// Invariant: the cut depends on the shape and the number of threads alone.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tenon::cpu {

struct TileBlocking {
  static constexpr uint32_t most_steps = 16;                   // of 32, of a block's depth
  static constexpr uint32_t most_rows = 8, most_columns = 16;  // in squares of 32
  static constexpr uint32_t enough_squares = 32;  // below, operands are read more than they are multiplied
  static constexpr uint32_t tasks_a_thread = 4;   // so that a disturbed thread costs little

  uint32_t rows, columns;  // of a block, in squares
  uint32_t row_blocks = 0, column_blocks = 0;
  uint32_t parts = 1;  // of the depth, each summed by a task of its own
  uint64_t matrices;

  TileBlocking(uint64_t products, uint32_t row_panels, uint32_t column_panels, uint32_t depth_blocks,
               unsigned threads) noexcept
      : rows(std::min(most_rows, row_panels)),
        columns(std::min(most_columns, column_panels)),
        matrices(products) {
    const uint64_t wanted = uint64_t{tasks_a_thread} * threads;
    cut_until(wanted, enough_squares, row_panels, column_panels);
    if (blocks() < wanted)
      parts = static_cast<uint32_t>(std::min<uint64_t>(depth_blocks, (wanted + blocks() - 1) / blocks()));
    cut_until((threads + parts - 1) / parts, 1, row_panels, column_panels);
    // As many blocks of nearly the same size.
    rows = (row_panels + row_blocks - 1) / row_blocks;
    columns = (column_panels + column_blocks - 1) / column_blocks;
  }

  uint64_t blocks() const noexcept { return matrices * row_blocks * column_blocks; }
  uint64_t tasks() const noexcept { return blocks() * parts; }

 private:
  // Halves blocks until there are as many, or they are as small.
  void cut_until(uint64_t many, uint32_t squares, uint32_t row_panels, uint32_t column_panels) noexcept {
    for (;;) {
      row_blocks = (row_panels + rows - 1) / rows;
      column_blocks = (column_panels + columns - 1) / columns;
      if (blocks() >= many || rows * columns <= squares) return;
      uint32_t& larger = columns >= rows ? columns : rows;
      larger = (larger + 1) / 2;
    }
  }
};

}  // namespace tenon::cpu
