// SPDX-License-Identifier: Apache-2.0
// amx_blocking.hpp: how a product on tiles is cut into tasks, by the sizes of the caches and the number of threads.
//
// A right panel over a block of depth is at most 32 KiB and stays in the first cache, while the block's left panels (at
// most 256 KiB) come from the second, beside the block's sums (512 KiB) and what is fetched for the next block of depth.
// Invariant: the cut depends on the shape and the number of threads alone.
#pragma once

#include "blocks.hpp"

namespace tenon::cpu {

struct TileBlocking : Blocks {
  static constexpr uint32_t most_steps = 16;                   // of 32, of a block's depth
  static constexpr uint32_t most_rows = 8, most_columns = 16;  // in squares of 32
  static constexpr uint32_t enough_squares = 32;  // below, operands are read more than they are multiplied

  TileBlocking(uint64_t batch, uint32_t row_squares, uint32_t column_squares, uint32_t depth_blocks,
               unsigned threads) noexcept
      : Blocks{.products = batch,
               .row_panels = row_squares,
               .column_panels = column_squares,
               .rows = std::min(most_rows, row_squares),
               .columns = std::min(most_columns, column_squares)} {
    cut(uint64_t{tasks_a_thread} * threads, enough_squares, depth_blocks, threads,
        [this] { return rows > columns; });
  }
};

}  // namespace tenon::cpu
