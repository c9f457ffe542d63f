// SPDX-License-Identifier: Apache-2.0
// amx_finish.cpp: from a square of sums to a result: bias, residual, activation, one rounding.
//
// Activations are computed in f32 to about 2⁻¹⁷ of their value, which a bf16 of 8 bits does not see.
// Invariant: NaN comes out wherever it goes in; rows and columns beyond the result's are not written.
#include "amx_square.hpp"

#include "exp.hpp"

#include <tenon/fragment.h>

#include <cmath>
#include <cstring>

namespace tenon::cpu {
namespace {

struct Same {
  TENON_CPU_LOOP static float of(float x) { return x; }
};
// What it leaves of a negative is a zero without sign.
struct Relu {
  TENON_CPU_LOOP static float of(float x) { return x <= 0 ? 0.0f : x; }
};
struct Sigmoid {
  TENON_CPU_LOOP static float of(float x) { return 1 / (1 + fast_exp(-x)); }
};
struct Silu {
  TENON_CPU_LOOP static float of(float x) { return x * Sigmoid::of(x); }
};
// Near 0 the quotient cancels; there two terms of the series are enough.
struct Tanh {
  TENON_CPU_LOOP static float of(float x) {
    const float e = fast_exp(-2 * std::fabs(x));
    const float far = std::copysign((1 - e) / (1 + e), x), near = x - x * x * x * (1.0f / 3);
    return std::fabs(x) < 0.02f ? near : far;
  }
};
struct GeluTanh {
  TENON_CPU_LOOP static float of(float x) {
    return x * Sigmoid::of(1.59576912f * (x + 0.044715f * x * x * x));  // ½(1 + tanh u) = sigmoid(2u)
  }
};
// x·Φ(x), Φ by erfc(z) = t·e^(p(t) − z²), t = 1/(1 + z/2): p fitted at Chebyshev's nodes for z from 0 to 10, so that the
// left tail keeps its relative accuracy.
struct Gelu {
  TENON_CPU_LOOP static float of(float x) {
    const float z = std::fabs(x) * 0.707106781f;
    const float t = 1 / (1 + 0.5f * z);
    float p = -0.1947416302f;
    p = p * t + 0.7800829307f;
    p = p * t - 1.048941116f;
    p = p * t + 0.392304935f;
    p = p * t - 0.06091865377f;
    p = p * t + 0.3999147231f;
    p = p * t + 0.9977256889f;
    p = p * t - 1.26542778f;
    const float tail = 0.5f * t * fast_exp(p - z * z);  // beyond z
    return x * (x < 0 ? tail : 1 - tail);
  }
};

// `count` numbers as f32, zeros after them; of null all are zeros.
TENON_CPU_LOOP void widen_line(const BF16* from, uint32_t count, float* to) {
  BF16 line[square_side] = {};
  if (from != nullptr) std::memcpy(line, from, count * sizeof(BF16));
#pragma omp simd
  for (uint32_t i = 0; i < square_side; ++i) to[i] = widen(line[i]);
}

template <class Activation>
struct Finish {
  static void run(const SquareResult& s) {
    alignas(64) float bias[square_side], residual[square_side] = {};
    alignas(64) BF16 line[square_side];
    widen_line(s.bias, s.columns, bias);
    for (uint32_t row = 0; row < s.rows; ++row) {
      const float* const sums = s.sums + row * square_side;
      if (s.residual != nullptr) widen_line(s.residual + row * s.row, s.columns, residual);
#pragma omp simd
      for (uint32_t i = 0; i < square_side; ++i)
        line[i] = to_bf16(Activation::of(sums[i] + bias[i] + residual[i]));
      if (s.columns == square_side)
        std::memcpy(s.to + row * s.row, line, sizeof line);
      else
        std::memcpy(s.to + row * s.row, line, s.columns * sizeof(BF16));
    }
  }
};

struct Add {
  static void run(float* sums, const float* more) {
#pragma omp simd
    for (uint32_t i = 0; i < square_elements; ++i) sums[i] += more[i];
  }
};

}  // namespace

FinishSquare finish_square(uint32_t activation, bool variant) noexcept {
  switch (activation) {
    case TN_OP_relu:
      return widest<Finish<Relu>>();
    case TN_OP_gelu:
      return variant ? widest<Finish<GeluTanh>>() : widest<Finish<Gelu>>();
    case TN_OP_sigmoid:
      return widest<Finish<Sigmoid>>();
    case TN_OP_tanh:
      return widest<Finish<Tanh>>();
    case TN_OP_silu:
      return widest<Finish<Silu>>();
    default:
      return widest<Finish<Same>>();
  }
}

void add_square(float* sums, const float* more) noexcept {
  static const auto add = widest<Add>();
  add(sums, more);
}

}  // namespace tenon::cpu
