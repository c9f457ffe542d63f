// SPDX-License-Identifier: Apache-2.0
// amx_steps.hpp: the loop over the depth of two panels, which keeps the tile registers busy and leaves the vector units to others.
//
// Invariant: sums in tile registers 0 to 3, left operands in 4 and 5, right ones in 6 and 7. Only files that loop over tiles
// include it.
#pragma once

#include "amx_square.hpp"
#include "amx_sums.hpp"

#if defined(__x86_64__)

namespace tenon::cpu {

// A quarter of a step's lines of the panel at `from`, between two products.
[[gnu::always_inline]] inline void fetch_quarter(const std::byte* from, uint32_t quarter) noexcept {
  constexpr uint32_t line = 64, lines = panel_step * sizeof(BF16) / line / 4;
  for (uint32_t i = 0; i < lines; ++i)
    __builtin_prefetch(from + (quarter * lines + i) * static_cast<size_t>(line), 0, 3);
}

// multiply_panels, with meanwhile.step() of vectors in each step of depth: a step's four products take 64 cycles, in which the
// processor finds room for what does not wait for them.
template <class Meanwhile>
[[gnu::always_inline]] TENON_TILES inline void multiply_steps(const PanelPair& p, bool accumulate,
                                                              float* sums, Meanwhile& meanwhile) noexcept {
  constexpr uint32_t fetched_ahead = 3;  // steps of left operands
  constexpr size_t line = 64;
  meet_memory();
  if (accumulate)
    load_sums(sums);
  else
    zero_sums();
  const BF16 *left = p.left, *right = p.right;
  const std::byte* ahead = p.ahead;
  for (uint32_t step = 0; step < p.steps; ++step, left += panel_step, right += panel_step) {
    const uint32_t soon = step + fetched_ahead;
    const auto* const fetch = reinterpret_cast<const std::byte*>(
        soon < p.steps ? p.left + soon * size_t{panel_step}
                       : p.next_left + (soon - p.steps) * size_t{panel_step});
    _tile_loadd(4, left, tile_stride);
    fetch_quarter(fetch, 0);
    _tile_loadd(6, right, tile_stride);
    _tile_dpbf16ps(0, 4, 6);
    fetch_quarter(fetch, 1);
    _tile_loadd(7, right + tile_elements, tile_stride);
    _tile_dpbf16ps(1, 4, 7);
    fetch_quarter(fetch, 2);
    _tile_loadd(5, left + tile_elements, tile_stride);
    _tile_dpbf16ps(2, 5, 6);
    fetch_quarter(fetch, 3);
    for (uint32_t i = 0; i < p.ahead_lines; ++i, ahead += line) __builtin_prefetch(ahead, 0, 2);
    _tile_dpbf16ps(3, 5, 7);
    meanwhile.step();
  }
  store_sums(sums);
  meet_memory();
}

}  // namespace tenon::cpu

#endif
