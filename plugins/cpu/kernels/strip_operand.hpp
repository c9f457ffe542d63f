// SPDX-License-Identifier: Apache-2.0
// strip_operand.hpp: an operand of a product in strips: packed [matrices][blocks of depth][panels][depth][items].
//
// A left panel is a strip of rows, a right one 32 columns. A constant is packed at compile; what several tasks read by all threads
// before the first of them; what one task alone reads by that task, a block of depth at a time, so that it never leaves the second
// cache. Rows that few columns meet are read where they lie.
// Invariant: a slot's room is used by one worker at a time, and panels are packed by one.
#pragma once

#include "strip_blocking.hpp"

namespace tenon::cpu {

class StripPanels {
 public:
  enum class Side { left, right };

  StripPanels(const Gemm& gemm, Side side, const DepthBlocks& depth) noexcept;

  uint32_t count() const noexcept { return panels_; }
  // The first item of a panel; of count(), how many items there are.
  int64_t item(uint32_t panel) const noexcept {
    return side_ == Side::left ? int64_t{panel} * items_ / panels_
                               : std::min<int64_t>(int64_t{panel} * strip_columns, items_);
  }
  int64_t items(uint32_t panel) const noexcept { return item(panel + 1) - item(panel); }
  const DepthBlocks& depth() const noexcept { return depth_; }
  const Matrices& matrices() const noexcept { return matrices_; }
  bool items_are_near() const noexcept { return item_stride_ == 1; }
  int64_t item_stride() const noexcept { return item_stride_; }
  // Whether the panels' items fill memory from step to step.
  bool are_gapless(uint32_t first, uint32_t end) const noexcept {
    return items_are_near() && depth_stride_ == item(end) - item(first);
  }
  // Whether a kernel may read rows where they lie, so many times, as quickly as packed ones.
  bool may_lie(uint32_t reads) const noexcept;
  int64_t packed_step() const noexcept { return side_ == Side::left ? strip_pitch : strip_columns; }
  // Elements of one panel over so much depth.
  uint64_t elements(int64_t depth) const noexcept { return static_cast<uint64_t>(depth * packed_step()); }
  uint64_t elements() const noexcept;  // of all
  uint64_t at(uint64_t matrix, uint32_t block, uint32_t panel) const noexcept;
  // Element (first item of the panel, first step of the block).
  const float* source_of(const float* values, uint64_t matrix, uint32_t block,
                         uint32_t panel) const noexcept {
    return values + matrices_.offset(matrix) + item(panel) * item_stride_ +
           depth_.first(block) * depth_stride_;
  }
  // Packing all is so many tasks, in any order. [worker thread; does not block; cannot fail]
  uint64_t tasks() const noexcept { return matrices_.count() * depth_.count() * shares(); }
  void pack(const float* values, uint64_t task, float* to) const noexcept;
  // Panels [first, end) over a block of depth, one after another. [worker thread; does not block; cannot fail]
  void pack(const float* values, uint64_t matrix, uint32_t block, uint32_t first, uint32_t end,
            float* to) const noexcept;

 private:
  int64_t most_items() const noexcept { return side_ == Side::left ? strip_rows : strip_columns; }
  // A task packs a few panels, or where items lie side by side a few steps of all.
  static constexpr uint32_t group_panels = 4;
  static constexpr int64_t group_steps = 64;
  uint32_t shares() const noexcept {
    if (items_are_near()) return static_cast<uint32_t>((depth_.largest() + group_steps - 1) / group_steps);
    return (panels_ + group_panels - 1) / group_panels;
  }
  void copy_steps(const float* from, uint32_t first, uint32_t end, int64_t step, int64_t step_end,
                  uint64_t size, float* to) const noexcept;
  uint64_t matrix_elements() const noexcept;

  Side side_;
  DepthBlocks depth_;
  Matrices matrices_;
  int64_t items_, item_stride_, depth_stride_;
  uint32_t panels_;
};

class StripOperand {
 public:
  // `read_once`: no two tasks read the same panel, of which a task reads `most` at a time; each `reads` times. Workspace is taken
  // from the builder. [may throw bad_alloc]
  StripOperand(Builder& builder, const StripPanels& panels, const Place& given, bool read_once, uint32_t most,
               uint32_t reads, uint64_t slots);
  // Panels that a step before has packed.
  StripOperand(const StripPanels& panels, const Place& packed) noexcept
      : panels_(panels), when_(When::before), packed_(packed) {}

  Place packed() const noexcept { return packed_; }

  // What is packed before the first task, as so many tasks of its own. [worker thread; does not block; cannot fail]
  uint64_t tasks() const noexcept { return when_ == When::first ? panels_.tasks() : 0; }
  void pack(const Run& run, uint64_t task) const noexcept { panels_.pack(values(run), task, packed(run)); }

  // Panels [first, end) over a block of depth, offset() apart; valid until the slot asks again. [worker thread; does not block;
  // cannot fail]
  const float* bring(const Run& run, uint64_t slot, uint64_t product, uint32_t block, uint32_t first,
                     uint32_t end) const noexcept;
  // Lines that the next bring() of a task will read, of block `block`, for its strip `index` of `count` to tell ahead: a share of what
  // lies without gaps; of items that are turned, one each, and none for those that outnumber the strips.
  Lines ahead(const Run& run, uint64_t product, uint32_t block, uint32_t first, uint32_t end, int64_t index,
              int64_t count) const noexcept;
  // From the first panel brought to another, in elements.
  int64_t offset(uint32_t first, uint32_t panel, uint32_t block) const noexcept {
    if (lies()) return (panels_.item(panel) - panels_.item(first)) * panels_.item_stride();
    return static_cast<int64_t>((panel - first) * panels_.elements(panels_.depth().size(block)));
  }
  int64_t step() const noexcept { return lies() ? panels_.item_stride() : panels_.packed_step(); }
  // Whether panels are read where they lie, rows that lie apart.
  bool lies() const noexcept { return when_ == When::never; }
  // Whether panels are there before the first task, and not brought by it.
  bool is_packed() const noexcept { return when_ != When::never && when_ != When::within; }

 private:
  enum class When { never, compile, before, first, within };

  const float* values(const Run& run) const noexcept {
    return reinterpret_cast<const float*>(run.at(given_));
  }
  float* packed(const Run& run) const noexcept { return reinterpret_cast<float*>(run.at(packed_)); }
  Place constant_panels(Builder& builder) const;

  StripPanels panels_;
  Place given_{};
  When when_;
  uint64_t slot_elements_ = 0;
  Place packed_{};
};

}  // namespace tenon::cpu
