// SPDX-License-Identifier: Apache-2.0
// amx_operand.hpp: an operand of a product on tiles, and when it is packed.
//
// A constant is packed at compile. What several tasks read is packed by all threads before the first of them, what one task
// alone reads by that task, a block of depth at a time, so that it never leaves the second cache.
// Invariant: a slot's room is used by one worker at a time.
#pragma once

#include "amx_panels.hpp"

namespace tenon::cpu {

class TileOperand {
 public:
  // What a task reads at a time: so many panels over so many steps of 32.
  struct Block {
    uint32_t panels, steps;
  };
  // `read_once`: no two tasks read the same panel. Workspace is taken from the builder. [may throw bad_alloc]
  TileOperand(Builder& builder, const PanelSet& panels, const Place& given, bool read_once,
              const Block& block, uint64_t slots);

  // What is packed before the first task, as so many tasks of its own. [worker thread; does not block; cannot fail]
  uint64_t tasks() const noexcept { return when_ == When::first ? set_.tasks() : 0; }
  void pack(const Run& run, uint64_t task) const noexcept { set_.pack(values(run), task, packed(run)); }

  // Panels [first, end) of product `batch` over a block of depth, one after another; valid until the slot asks again.
  // [worker thread; does not block; cannot fail]
  const BF16* panels(const Run& run, uint64_t slot, uint64_t batch, uint32_t block, uint32_t first,
                     uint32_t end) const noexcept;
  // Whether the next block of depth lies in memory already, where panels() will find it.
  bool is_packed() const noexcept { return when_ != When::within; }
  const BF16* packed_at(const Run& run, uint64_t batch, uint32_t block, uint32_t panel) const noexcept {
    return packed(run) + set_.at(batch, block, panel);
  }

 private:
  enum class When { compile, first, within };

  const BF16* values(const Run& run) const noexcept { return reinterpret_cast<const BF16*>(run.at(given_)); }
  BF16* packed(const Run& run) const noexcept { return reinterpret_cast<BF16*>(run.at(packed_)); }
  Place constant_panels(Builder& builder) const;

  PanelSet set_;
  Place given_;
  When when_;
  uint64_t slot_elements_;
  Place packed_{};
};

}  // namespace tenon::cpu
