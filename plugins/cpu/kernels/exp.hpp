// SPDX-License-Identifier: Apache-2.0
// exp.hpp: e^x without branches or tables, for loops that the compiler vectorises.
//
// x = n·ln 2 + r, |r| ≤ ½ ln 2; e^r by its series, 2^n put into the exponent in two steps, so that results reach down into
// the subnormals.
// Invariant: off by no more than 2 ULP; e^-∞ = 0, e^∞ = ∞, NaN stays NaN; e^0 = 1.
#pragma once

#include "wide.hpp"

#include <bit>

namespace tenon::cpu {

TENON_CPU_LOOP float fast_exp(float x) {
  constexpr float low = -104.0f, high = 89.0f;  // beyond: 0 and ∞
  constexpr float to_whole = 0x1.8p23f;         // adding it rounds to the nearest whole number
  const float held = x < low ? low : x > high ? high : x;
  const float shifted = held * 0x1.715476p+0f + to_whole;
  const float n = shifted - to_whole;
  const float r = (held - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  // In unsigned numbers, where a NaN's bits overflow nothing.
  const uint32_t whole = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(to_whole) + 256;
  const uint32_t half = whole >> 1, rest = whole - half;
  const float first = std::bit_cast<float>((half - 1) << 23), second = std::bit_cast<float>((rest - 1) << 23);
  return p * first * second;
}

TENON_CPU_LOOP double fast_exp(double x) {
  constexpr double low = -746, high = 710;
  constexpr double to_whole = 0x1.8p52;
  const double held = x < low ? low : x > high ? high : x;
  const double shifted = held * 0x1.71547652b82fep+0 + to_whole;
  const double n = shifted - to_whole;
  const double r = (held - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * (r * r) + r + 1.0;
  const uint64_t whole = std::bit_cast<uint64_t>(shifted) - std::bit_cast<uint64_t>(to_whole) + 2048;
  const uint64_t half = whole >> 1, rest = whole - half;
  const double first = std::bit_cast<double>((half - 1) << 52),
               second = std::bit_cast<double>((rest - 1) << 52);
  return p * first * second;
}

}  // namespace tenon::cpu
