// SPDX-License-Identifier: Apache-2.0
// norm_formulas.hpp: what a normalisation does to one element, over any type of number (numbers.hpp): a value in a loop, a
// Traced in generated code.
//
// Invariant: sums of products say where they are fused, so a loop and code give the same bits.
#pragma once

#include "numbers.hpp"

namespace tenon::cpu::norm {

// (x − mean)·slope + level.
template <class N>
TENON_CPU_LOOP N normalised(N x, N mean, N slope, N level) {
  return madd(x - mean, slope, level);
}

// slope·(g − level − (x − mean)·tilt).
template <class N>
TENON_CPU_LOOP N gradient(N g, N x, N mean, N slope, N level, N tilt) {
  return slope * madd(mean - x, tilt, g - level);
}

// What relu's gradient lets through of g, where relu was given that of x: what is greater than `least`, the greatest number that
// is 0 in the type of elements.
template <class N>
TENON_CPU_LOOP N let_through(N g, N x, N mean, N slope, N level, N least) {
  return select(less(least, normalised(x, mean, slope, level)), g, N(0));
}

// Of a row, whose scale and bias are each element's: (x − mean)·inverse·scale + bias.
template <class N>
TENON_CPU_LOOP N normalised_in_row(N x, N mean, N inverse, N scale, N bias) {
  return madd((x - mean) * inverse, scale, bias);
}

// The same of a root mean square: x·inverse·scale.
template <class N>
TENON_CPU_LOOP N scaled_in_row(N x, N inverse, N scale) {
  return x * inverse * scale;
}

// inverse·(g·scale − level − x̂·tilt) with x̂ = (x − mean)·inverse.
template <class N>
TENON_CPU_LOOP N gradient_in_row(N g, N x, N scale, N mean, N inverse, N level, N tilt) {
  return inverse * madd((mean - x) * inverse, tilt, madd(g, scale, -level));
}

// One number more, the (1 / weight)th, of which mean and Σ(x − mean)² are known (Welford).
template <class N>
TENON_CPU_LOOP void fold(N& mean, N& spread, N x, N weight) {
  const N apart = x - mean, moved = madd(apart, weight, mean);
  spread = madd(apart, x - moved, spread);
  mean = moved;
}

// Σg and Σg·(x − mean), of one pair more.
template <class N>
TENON_CPU_LOOP void dots(N& sum, N& product, N g, N x, N mean) {
  sum = sum + g;
  product = madd(g, x - mean, product);
}

}  // namespace tenon::cpu::norm
