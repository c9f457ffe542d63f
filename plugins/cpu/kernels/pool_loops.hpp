// SPDX-License-Identifier: Apache-2.0
// pool_loops.hpp: the arithmetic of windows over images: of one window for many channels, or of one tap for a row of windows.
//
// Invariant: windows give in their order, and their taps are folded in theirs, whichever form is taken.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// What the taps of a window see, and where they give to: rows of channels.
template <class S>
struct Taps {
  static constexpr uint32_t most = 64;
  static constexpr uint64_t most_channels = 64;

  uint32_t count = 0;
  const S* from[most];
  S* to[most];
};

// Of f32 or f64. The greatest is the first of equals; a NaN is greater than all.
template <class S>
struct PoolLoops {
  // One window, n ≤ most_channels channels; `from` or `to` is there for what a loop reads or writes.
  void (*greatest)(const Taps<S>& taps, S* best, uint64_t n);
  void (*mean)(const Taps<S>& taps, S* mean, S share, uint64_t n);
  void (*give_to_greatest)(const Taps<S>& taps, const S* dy, uint64_t n);
  void (*give_to_all)(const Taps<S>& taps, const S* dy, S share, uint64_t n);

  // One tap of n windows, whose places are `step` apart.
  void (*fold_greatest)(S* best, const S* x, int64_t step, int64_t n);
  // The same, and which tap it was.
  void (*find_greatest)(S* best, S* where, S tap, const S* x, int64_t step, int64_t n);
  void (*fold_sum)(S* sum, const S* x, int64_t step, int64_t n);
  void (*give)(S* sums, const S* part, int64_t step, int64_t n);
};

// [any-thread; does not block; cannot fail]
template <class S>
const PoolLoops<S>& pool_loops() noexcept;

}  // namespace tenon::cpu
