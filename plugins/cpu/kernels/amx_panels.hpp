// SPDX-License-Identifier: Apache-2.0
// amx_panels.hpp: one operand of a product on tiles, packed: [matrices][blocks of depth][panels of 32 items][steps][2 tiles].
//
// A block of depth of neighbouring panels has no gaps, so what comes next can be fetched as one stretch.
// Invariant: a matrix that a broadcast repeats is packed once.
#pragma once

#include "amx_square.hpp"
#include "gemm_batch.hpp"

#include <algorithm>

namespace tenon::cpu {

// The depth in steps of 32, cut into blocks of nearly the same size.
struct DepthCut {
  uint32_t steps, block;

  DepthCut(int64_t depth, uint32_t most) noexcept : steps(whole_tiles(depth) / tile_depth) {
    const uint32_t count = (steps + most - 1) / most;
    block = (steps + count - 1) / count;
  }
  uint32_t blocks() const noexcept { return (steps + block - 1) / block; }
  uint32_t first(uint32_t index) const noexcept { return index * block; }
  uint32_t count(uint32_t index) const noexcept { return std::min(block, steps - first(index)); }
};

class PanelSet {
 public:
  // The left operand's items are the product's rows, the right one's its columns.
  PanelSet(const Gemm& gemm, bool left, const DepthCut& cut) noexcept;

  uint32_t panels() const noexcept { return panels_; }
  const Matrices& matrices() const noexcept { return matrices_; }
  uint64_t bytes() const noexcept { return matrices_.count() * matrix_elements() * sizeof(BF16); }
  // Packing is so many tasks, in any order. [worker thread; does not block; cannot fail]
  uint64_t tasks() const noexcept { return matrices_.count() * cut_.blocks() * groups_; }
  void pack(const BF16* from, uint64_t task, BF16* to) const noexcept;
  // Panels [first, end) of product `batch` over a block of depth, one after another. [worker thread; does not block; cannot
  // fail]
  void pack_panels(const BF16* from, uint64_t batch, uint32_t block, uint32_t first, uint32_t end,
                   BF16* to) const noexcept;
  // Where the panel of product `batch` begins, in elements.
  size_t at(uint64_t batch, uint32_t block, uint32_t panel) const noexcept {
    return matrices_.of(batch) * matrix_elements() + in_matrix(block, panel);
  }

 private:
  uint64_t matrix_elements() const noexcept { return uint64_t{panels_} * cut_.steps * panel_step; }
  size_t in_matrix(uint32_t block, uint32_t panel) const noexcept {
    return (size_t{cut_.first(block)} * panels_ + size_t{panel} * cut_.count(block)) * panel_step;
  }
  void pack_stretch(const BF16* matrix, uint32_t block, uint32_t first, uint32_t end,
                    BF16* to) const noexcept;
  void pack_step(const BF16* matrix, uint32_t panel, uint32_t step, BF16* to) const noexcept;

  DepthCut cut_;
  Matrices matrices_;
  int64_t items_, depth_, item_stride_, depth_stride_;
  bool left_;
  uint32_t panels_, groups_;
};

}  // namespace tenon::cpu
