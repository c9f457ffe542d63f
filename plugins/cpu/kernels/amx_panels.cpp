// SPDX-License-Identifier: Apache-2.0
// amx_panels.cpp: where a panel is, and how it gets there.
#include "amx_panels.hpp"

#if defined(__x86_64__)

namespace tenon::cpu {
namespace {

// Packed by one task: enough side by side that lines of a cache are read whole, whatever their alignment.
constexpr uint32_t group_panels = 4;

uint32_t left_of(int64_t n, int64_t first, uint32_t most) noexcept {
  return static_cast<uint32_t>(std::clamp<int64_t>(n - first, 0, most));
}

}  // namespace

PanelSet::PanelSet(const Gemm& gemm, bool left, const DepthCut& cut) noexcept
    : cut_(cut),
      matrices_(gemm, left ? gemm.a : gemm.b),
      items_(left ? gemm.rows : gemm.columns),
      depth_(gemm.depth),
      item_stride_(left ? gemm.a.row : gemm.b.column),
      depth_stride_(left ? gemm.a.column : gemm.b.row),
      left_(left),
      panels_(whole_tiles(items_) / square_side),
      groups_((panels_ + group_panels - 1) / group_panels) {}

void PanelSet::pack_step(const BF16* matrix, uint32_t panel, uint32_t step, BF16* to) const noexcept {
  const int64_t k = int64_t{step} * tile_depth;
  const bool near = depth_stride_ == 1;
  for (uint32_t half = 0; half < 2; ++half, to += tile_elements) {
    const int64_t item = int64_t{panel} * square_side + half * tile_rows;
    const TileSource source{.from = matrix + item * item_stride_ + k * depth_stride_,
                            .stride = near ? item_stride_ : depth_stride_,
                            .items = left_of(items_, item, tile_rows),
                            .depth = left_of(depth_, k, tile_depth),
                            .depth_is_near = near};
    if (left_)
      pack_left(source, to);
    else
      pack_right(source, to);
  }
}

// Along what lies side by side.
void PanelSet::pack_stretch(const BF16* matrix, uint32_t block, uint32_t first, uint32_t end,
                            BF16* to) const noexcept {
  const uint32_t steps = cut_.count(block);
  const auto one = [&](uint32_t panel, uint32_t step) {
    pack_step(matrix, panel, cut_.first(block) + step,
              to + (size_t{panel - first} * steps + step) * panel_step);
  };
  if (depth_stride_ == 1) {
    for (uint32_t panel = first; panel < end; ++panel) {
      for (uint32_t step = 0; step < steps; ++step) one(panel, step);
    }
  } else {
    for (uint32_t step = 0; step < steps; ++step) {
      for (uint32_t panel = first; panel < end; ++panel) one(panel, step);
    }
  }
}

void PanelSet::pack(const BF16* from, uint64_t task, BF16* to) const noexcept {
  const uint32_t first = static_cast<uint32_t>(task % groups_) * group_panels,
                 block = static_cast<uint32_t>(task / groups_ % cut_.blocks());
  const uint64_t matrix = task / groups_ / cut_.blocks();
  pack_stretch(from + matrices_.offset(matrix), block, first, std::min(panels_, first + group_panels),
               to + matrix * matrix_elements() + in_matrix(block, first));
}

void PanelSet::pack_panels(const BF16* from, uint64_t batch, uint32_t block, uint32_t first, uint32_t end,
                           BF16* to) const noexcept {
  pack_stretch(from + matrices_.offset(matrices_.of(batch)), block, first, end, to);
}

}  // namespace tenon::cpu

#endif
