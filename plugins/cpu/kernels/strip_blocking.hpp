// SPDX-License-Identifier: Apache-2.0
// strip_blocking.hpp: how a product in strips is cut into tasks, by the sizes of the caches and the number of threads.
//
// A task's left panels over a block of depth (at most 1 MiB) stay in the second cache, while its right panels come by one after the
// other, each to meet them all. A product of few elements and great depth is cut along its depth alone: a task has sums of its own of
// all elements, and what it reads are whole rows.
// Invariant: the cut depends on the shape and the number of threads alone.
#pragma once

#include "blocks.hpp"
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

struct StripBlocking : Blocks {
  static constexpr int64_t most_left = int64_t{1} << 18;  // elements
  // Pairs of panels; below, operands are read more than they are multiplied.
  static constexpr uint64_t enough = 32;

  StripBlocking(uint64_t batch, uint32_t strips, uint32_t panels, const DepthBlocks& depth,
                unsigned threads) noexcept
      : Blocks{.products = batch,
               .row_panels = strips,
               .column_panels = panels,
               .rows = strips,
               .columns = panels} {
    const int64_t most = std::max<int64_t>(1, most_left / (depth.largest() * strip_pitch));
    if (!depth.is_deep()) rows = std::min(rows, static_cast<uint32_t>(most));
    // Rows first: what lies to the left is then packed by the task that reads it.
    cut(threads > 1 ? uint64_t{tasks_a_thread} * threads : 1, depth.is_deep() ? UINT64_MAX : enough,
        depth.is_shared() ? 1 : depth.count(), threads, [this] {
          return columns == 1 || rows > 8 || (rows > 1 && rows * strip_rows >= columns * strip_columns);
        });
  }
};

}  // namespace tenon::cpu
