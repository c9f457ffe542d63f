// SPDX-License-Identifier: Apache-2.0
// pass.hpp: elementwise nodes, with dropouts among them and reductions behind them, as one walk over memory.
//
// Each operand is read once, what is wanted is written once, and what a reduction sums is summed while it is in L1: the
// gradient of an activation and of the bias before it take one read of dy and of y, and one write.
// Invariant: what `pass_of` allows, `build_pass` builds, unless more values live at once than a chain holds. Sums are cut by
// the shape alone, so the same input gives the same bits on any number of threads.
#pragma once

#include "builder.hpp"
#include "tile_ops.hpp"

namespace tenon::cpu {

struct PassForm {
  std::span<const int64_t> dims;  // of everything that is computed
  Reg reg = Reg::f32;
  std::vector<uint32_t> reductions{};  // nodes
  std::vector<bool> reduced{};         // by dim, where there are reductions
  // Rows: the outermost dim is kept, and every `unit` elements give `outputs` of their own. Else all elements give them.
  bool rows = false;
  uint64_t unit = 1, outputs = 1;
};

// How the nodes [first, end) run as one pass, or TN_UNSUPPORTED and why they do not. [any-thread; does not block; may fail]
Result<PassForm> pass_of(const FragmentView& fragment, const Nodes& nodes);

// Whether a node can stand in a pass at all.
bool passes(uint32_t op) noexcept;

// Adds the step of the nodes [first, end), a RangedStep over the rows of their last dim. [any-thread; may block; may fail]
Status build_pass(Builder& builder, uint32_t first, uint32_t end, unsigned threads);

}  // namespace tenon::cpu
