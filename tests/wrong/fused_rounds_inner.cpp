// SPDX-License-Identifier: Apache-2.0
// fused_rounds_inner.cpp: what one node hands to the next is rounded to eight bits.
#include "honest_kernel.hpp"
#include "wrong.hpp"

#include <cmath>

WRONG_PLUGIN(tables) {
  honest::fused_arithmetic().inner = [](float x) {
    if (!std::isfinite(x) || x == 0.0f) return x;
    const int drop = 7 - std::ilogb(x);
    return std::ldexp(std::nearbyint(std::ldexp(x, drop)), -drop);
  };
}
