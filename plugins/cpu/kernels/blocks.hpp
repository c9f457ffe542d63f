// SPDX-License-Identifier: Apache-2.0
// blocks.hpp: the results of a batch of products, counted in panels, cut into blocks of nearly the same size, and the depth into parts.
//
// Invariant: blocks cover every pair of panels once.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tenon::cpu {

// Panels [row, row_end) × [column, column_end) of one product of the batch.
struct Block {
  uint64_t product;
  uint32_t row, row_end, column, column_end;
  uint32_t rows() const noexcept { return row_end - row; }
  uint32_t columns() const noexcept { return column_end - column; }
};

struct Blocks {
  static constexpr uint32_t tasks_a_thread = 4;  // so that a disturbed thread costs little

  uint64_t products;
  uint32_t row_panels, column_panels;
  uint32_t rows, columns;  // of a block
  uint32_t row_blocks = 1, column_blocks = 1;
  uint32_t parts = 1;  // of the depth, each summed by a task of its own

  uint64_t count() const noexcept { return products * row_blocks * column_blocks; }
  uint64_t tasks() const noexcept { return count() * parts; }
  Block at(uint64_t index) const noexcept {
    const auto row = static_cast<uint32_t>(index % row_blocks) * rows;
    index /= row_blocks;
    const auto column = static_cast<uint32_t>(index % column_blocks) * columns;
    return {.product = index / column_blocks,
            .row = row,
            .row_end = std::min(row + rows, row_panels),
            .column = column,
            .column_end = std::min(column + columns, column_panels)};
  }

  // Halves blocks, by_rows() says in which direction, until there are `wanted` or they have no more than `enough` pairs of panels; then
  // cuts the depth, which is that many blocks of depth; and at last halves on until every thread has a task.
  template <class ByRows>
  void cut(uint64_t wanted, uint64_t enough, uint32_t depth_blocks, unsigned threads,
           ByRows&& by_rows) noexcept {
    cut_until(wanted, enough, by_rows);
    const uint64_t whole = std::max<uint64_t>(count(), 1);
    if (whole < wanted)
      parts = static_cast<uint32_t>(std::min<uint64_t>(depth_blocks, (wanted + whole - 1) / whole));
    cut_until((threads + parts - 1) / parts, 1, by_rows);
    rows = (row_panels + row_blocks - 1) / row_blocks;
    columns = (column_panels + column_blocks - 1) / column_blocks;
  }

 private:
  template <class ByRows>
  void cut_until(uint64_t many, uint64_t pairs, ByRows&& by_rows) noexcept {
    for (;;) {
      row_blocks = (row_panels + rows - 1) / rows;
      column_blocks = (column_panels + columns - 1) / columns;
      if (count() >= many || uint64_t{rows} * columns <= pairs) return;
      uint32_t& larger = by_rows() ? rows : columns;
      larger = (larger + 1) / 2;
    }
  }
};

}  // namespace tenon::cpu
