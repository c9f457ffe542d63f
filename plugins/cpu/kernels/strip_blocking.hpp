// SPDX-License-Identifier: Apache-2.0
// strip_blocking.hpp: how a product in strips is cut into tasks, by the sizes of the caches and the number of threads.
//
// A task's left panels over a block of depth (at most 1 MiB) stay in the second cache, while its right panels come by one after the
// other, each to meet them all. A product of few elements and great depth is cut along its depth alone: a task has sums of its own of
// all elements, and what it reads are whole rows.
// Invariant: the cut depends on the shape and the number of threads alone.
#pragma once

#include "gemm_batch.hpp"
#include "strips.hpp"

#include <algorithm>
#include <cstdint>

namespace tenon::cpu {

// The depth, cut into blocks of nearly the same size.
class DepthBlocks {
 public:
  // `shared`: blocks that products of any number of rows have alike, and which no product sums in parts.
  explicit DepthBlocks(const Gemm& gemm, bool shared = false) noexcept
      : depth_(gemm.depth), shared_(shared), deep_(!shared && is_deep(gemm)) {
    const int64_t most =
        deep_ ? std::clamp(deep_cached / (gemm.rows + gemm.columns), least_deep, most_steps) : most_steps;
    const int64_t blocks = (depth_ + most - 1) / most;
    block_ = (depth_ + blocks - 1) / blocks;
  }
  // Of few elements and great depth.
  static bool is_deep(const Gemm& gemm) noexcept {
    const int64_t elements = static_cast<int64_t>(products_of(gemm)) * gemm.rows * gemm.columns;
    return elements <= cached && gemm.depth >= 2 * std::max({most_steps, gemm.rows, gemm.columns});
  }
  bool is_deep() const noexcept { return deep_; }
  bool is_shared() const noexcept { return shared_; }
  uint32_t count() const noexcept { return static_cast<uint32_t>((depth_ + block_ - 1) / block_); }
  int64_t largest() const noexcept { return block_; }
  int64_t first(uint32_t block) const noexcept { return block * block_; }
  int64_t size(uint32_t block) const noexcept { return std::min(block_, depth_ - first(block)); }

 private:
  // A left panel of so many is 64 KiB, and sums are read and written again once for each block.
  static constexpr int64_t most_steps = 1024, least_deep = 128;
  // Elements: 1 MiB of sums, and beside them 512 KiB of what a deep block reads.
  static constexpr int64_t cached = int64_t{1} << 18, deep_cached = int64_t{1} << 17;

  int64_t depth_, block_;
  bool shared_, deep_;
};

struct StripBlocking {
  static constexpr int64_t most_left = int64_t{1} << 18;  // elements
  // Pairs of panels; below, operands are read more than they are multiplied.
  static constexpr uint64_t enough = 32;
  static constexpr uint32_t tasks_a_thread = 4;  // so that a disturbed thread costs little

  uint32_t rows, columns;  // of a task, in panels
  uint32_t row_blocks = 1, column_blocks = 1;
  uint32_t parts = 1;  // of the depth, each summed by a task of its own
  uint64_t products;

  StripBlocking(uint64_t batch, uint32_t row_panels, uint32_t column_panels, const DepthBlocks& depth,
                unsigned threads) noexcept
      : rows(row_panels), columns(column_panels), products(batch) {
    const uint64_t wanted = threads > 1 ? uint64_t{tasks_a_thread} * threads : 1;
    if (!depth.is_deep()) {
      rows = std::min(
          rows, static_cast<uint32_t>(std::max<int64_t>(1, most_left / (depth.largest() * strip_pitch))));
      cut_until(wanted, enough, row_panels, column_panels);
    }
    const uint64_t whole = std::max<uint64_t>(blocks(), 1);
    if (whole < wanted && !depth.is_shared())
      parts = static_cast<uint32_t>(std::min<uint64_t>(depth.count(), (wanted + whole - 1) / whole));
    cut_until((threads + parts - 1) / parts, 1, row_panels, column_panels);
    // As many blocks of nearly the same size.
    rows = (row_panels + row_blocks - 1) / row_blocks;
    columns = (column_panels + column_blocks - 1) / column_blocks;
  }

  uint64_t blocks() const noexcept { return products * row_blocks * column_blocks; }
  uint64_t tasks() const noexcept { return blocks() * parts; }

 private:
  // Halves blocks until there are as many, or they are as small.
  void cut_until(uint64_t many, uint64_t pairs, uint32_t row_panels, uint32_t column_panels) noexcept {
    for (;;) {
      row_blocks = (row_panels + rows - 1) / rows;
      column_blocks = (column_panels + columns - 1) / columns;
      if (blocks() >= many || uint64_t{rows} * columns <= pairs) return;
      // Rows first: what lies to the left is then packed by the task that reads it.
      const bool by_rows =
          columns == 1 || rows > 8 || (rows > 1 && rows * strip_rows >= columns * strip_columns);
      uint32_t& cut = by_rows ? rows : columns;
      cut = (cut + 1) / 2;
    }
  }
};

}  // namespace tenon::cpu
