// SPDX-License-Identifier: Apache-2.0
// amx_square.cpp: the loops, on tile registers 0 to 3 for sums, 4 and 5 for left, 6 and 7 for right operands.
//
// Invariant: as amx_square.hpp.
#include "amx_square.hpp"

#include "amx_sums.hpp"

#if defined(__x86_64__)

namespace tenon::cpu {
namespace {

constexpr uint32_t line = 64;                                       // of a cache, in bytes
constexpr uint32_t panel_lines = panel_step * sizeof(BF16) / line;  // a step's
constexpr uint32_t fetched_ahead = 3;                               // steps of left operands

// A quarter of a step's lines of the panel at `from`, between two products.
[[gnu::always_inline]] inline void fetch_quarter(const std::byte* from, uint32_t quarter) noexcept {
  constexpr uint32_t lines = panel_lines / 4;
  for (uint32_t i = 0; i < lines; ++i)
    __builtin_prefetch(from + (quarter * lines + i) * static_cast<size_t>(line), 0, 3);
}

}  // namespace

TENON_TILES void multiply_panels(const PanelPair& p, bool accumulate, float* sums) noexcept {
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
  }
  store_sums(sums);
  meet_memory();
}

}  // namespace tenon::cpu

#endif
