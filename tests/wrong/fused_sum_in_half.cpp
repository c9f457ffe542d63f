// SPDX-License-Identifier: Apache-2.0
// fused_sum_in_half.cpp: a sum among other nodes is kept in eight bits of precision; alone it is right.
#include "honest_kernel.hpp"
#include "wrong.hpp"

#include <cmath>

WRONG_PLUGIN(tables) {
  honest::fused_arithmetic().sum = [](const float* first, int64_t n, int64_t step) {
    float total = 0;
    for (int64_t i = 0; i < n; ++i) {
      total += first[i * step];
      if (std::isfinite(total) && total != 0.0f) {
        const int drop = 8 - std::ilogb(total);
        total = std::ldexp(std::nearbyint(std::ldexp(total, drop)), -drop);
      }
    }
    return total;
  };
}
