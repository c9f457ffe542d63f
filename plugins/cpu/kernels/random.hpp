// SPDX-License-Identifier: Apache-2.0
// random.hpp: what dropout does with a stretch of its elements, for its own step and for steps that take it in.
//
// Invariant: an element's number depends on seed, offset, key and its own index alone, as ops.def writes it.
#pragma once

#include "builder.hpp"
#include "tile_ops.hpp"

namespace tenon::cpu {

// A dropout's seed and offset, where they are, and its attributes.
struct Draw {
  Place seed{}, offset{};
  uint64_t key = 0;  // what the node adds to the seed
  double rate = 0;
};
Draw draw_of(const Builder& builder, const tn_node& node);

// Elements [at, at + n) of a dropout: `x` and `out` are tiles of class `reg`, f32 or f64, and may be the same. `at` counts
// in logical order. Not yet rounded to a half. [any-thread; does not block; cannot fail]
void thin(const Draw& draw, const Run& run, Reg reg, uint64_t at, uint32_t n, const void* x,
          void* out) noexcept;

}  // namespace tenon::cpu
