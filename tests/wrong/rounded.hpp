// SPDX-License-Identifier: Apache-2.0
// rounded.hpp: what wrong plugins do that keep too few bits.
// Invariant: zeros, infinities and NaN stay what they are, so only precision is wrong.
#pragma once

#include <cmath>
#include <cstdint>

namespace wrong {

// To `bits` bits after the first.
inline float rounded(float x, int bits) {
  if (!std::isfinite(x) || x == 0.0f) return x;
  const int drop = bits - std::ilogb(x);
  return std::ldexp(std::nearbyint(std::ldexp(x, drop)), -drop);
}

inline float rounded_sum(const float* first, int64_t n, int64_t step) {
  float total = 0;
  for (int64_t i = 0; i < n; ++i) total = rounded(total + first[i * step], 8);
  return total;
}

}  // namespace wrong
