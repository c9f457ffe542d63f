// SPDX-License-Identifier: Apache-2.0
// amx_square.cpp: a square of a product alone, and squares added up.
//
// Invariant: as amx_square.hpp.
#include "amx_square.hpp"

#include "amx_steps.hpp"

#if defined(__x86_64__)

namespace tenon::cpu {
namespace {

struct Nothing {
  TENON_TILES void step() noexcept {}
};

}  // namespace

TENON_TILES void multiply_panels(const PanelPair& panels, bool accumulate, float* sums) noexcept {
  Nothing nothing;
  multiply_steps(panels, accumulate, sums, nothing);
}

TENON_TILES void add_square(float* sums, const float* more) noexcept {
#pragma omp simd
  for (uint32_t i = 0; i < square_elements; ++i) sums[i] += more[i];
}

}  // namespace tenon::cpu

#endif
