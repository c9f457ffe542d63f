// SPDX-License-Identifier: Apache-2.0
// amx_finish.cpp: from a square of sums to a result: bias, residual, activation, one rounding.
//
// Activations are computed in f32 to about 2⁻¹⁴ of their value, which a bf16 of 8 bits hardly sees; where that is below 2·10⁻³⁶ it
// may be 0, and subnormal numbers are, sums and results.
// Invariant: NaN comes out wherever it goes in; rows and columns beyond the result's are not written.
#include "amx_steps.hpp"

#include <tenon/fragment.h>

#if defined(__x86_64__)

// A function of vectors, part of a loop over tiles.
#define TENON_VECTORS [[gnu::always_inline]] TENON_TILES inline

namespace tenon::cpu {
namespace {

TENON_VECTORS __m512 widened(__m256i halves) noexcept {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
TENON_VECTORS __m512 all(float x) noexcept { return _mm512_set1_ps(x); }

// Horner's rule, the highest power first.
template <class... More>
TENON_VECTORS __m512 series(__m512 x, float highest, More... more) noexcept {
  __m512 out = all(highest);
  ((out = _mm512_fmadd_ps(out, x, all(more))), ...);
  return out;
}

// 2^x for x from -126 to 127, to 3·10⁻⁶ of itself: a polynomial on [-½, ½], the whole part as exponent. A power below the normal
// numbers would cost the processor a hundred cycles.
TENON_VECTORS __m512 power_of_2(__m512 x) noexcept {
  const __m512 to_whole = all(0x1.8p23f);  // adding it rounds to the nearest whole number
  const __m512 whole = _mm512_sub_ps(_mm512_add_ps(x, to_whole), to_whole);
  const __m512 part = _mm512_sub_ps(x, whole);
  return _mm512_scalef_ps(
      series(part, 0.00957010128f, 0.0559178591f, 0.240247443f, 0.693121791f, 0.999999285f), whole);
}
// e^x, as good as 0 and ∞ beyond the range. Of two numbers, minimum and maximum are the second where one is NaN.
constexpr float most_power = 87;
TENON_VECTORS __m512 power_of_e(__m512 x) noexcept {
  const __m512 held = _mm512_min_ps(all(most_power), _mm512_max_ps(all(-most_power), x));
  return power_of_2(_mm512_mul_ps(held, all(1.44269504f)));
}
// x without what is negative; a zero has no sign.
TENON_VECTORS __m512 positive_part(__m512 x) noexcept {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NLE_UQ), x);
}
// 1/(1 + e^-x), and 0 where that is as good as it, so that x may be as large as it will.
TENON_VECTORS __m512 logistic(__m512 x) noexcept {
  const __m512 zero = _mm512_setzero_ps(), sum = _mm512_add_ps(all(1), power_of_e(_mm512_sub_ps(zero, x)));
  return _mm512_maskz_rcp14_ps(_mm512_cmp_ps_mask(x, all(-most_power), _CMP_NLT_UQ), sum);
}

struct Same {
  TENON_VECTORS static __m512 of(__m512 x) noexcept { return x; }
};
struct Relu {
  TENON_VECTORS static __m512 of(__m512 x) noexcept { return positive_part(x); }
};
struct Sigmoid {
  TENON_VECTORS static __m512 of(__m512 x) noexcept { return logistic(x); }
};
struct Silu {
  TENON_VECTORS static __m512 of(__m512 x) noexcept { return _mm512_mul_ps(x, logistic(x)); }
};
// (1 − e^-2|x|) / (1 + e^-2|x|). Near 0 the difference cancels; there two terms of the series are enough.
struct Tanh {
  TENON_VECTORS static __m512 of(__m512 x) noexcept {
    const __m512 size = _mm512_abs_ps(x), e = power_of_e(_mm512_mul_ps(size, all(-2)));
    const __m512 far = _mm512_mul_ps(_mm512_sub_ps(all(1), e), _mm512_rcp14_ps(_mm512_add_ps(all(1), e)));
    const __m512 near = _mm512_mul_ps(size, series(_mm512_mul_ps(x, x), -1.0f / 3, 1.0f));
    const __m512 sign = _mm512_and_ps(x, all(-0.0f));
    return _mm512_or_ps(sign,
                        _mm512_mask_mov_ps(far, _mm512_cmp_ps_mask(size, all(0.02f), _CMP_LT_OQ), near));
  }
};
// ½(1 + tanh u) = logistic(2u)
struct GeluTanh {
  TENON_VECTORS static __m512 of(__m512 x) noexcept {
    const __m512 twice_u =
        _mm512_mul_ps(x, series(_mm512_mul_ps(x, x), 1.59576912f * 0.044715f, 1.59576912f));
    return _mm512_mul_ps(x, logistic(twice_u));
  }
};
// x·Φ(x) = max(x, 0) − |x|·Φ(-|x|), Φ(-z) as a power of 2: its logarithm to 3·10⁻⁵ for z up to 12.9, so that the left tail keeps
// its relative accuracy down to 3·10⁻³⁷. Of -∞ the NaN of -∞ · 0.
struct Gelu {
  TENON_VECTORS static __m512 of(__m512 x) noexcept {
    const __m512 most = all(12.9f), size = _mm512_min_ps(most, _mm512_abs_ps(x));
    const __m512 logarithm =
        series(size, -1.96749417e-09f, 1.4279729e-07f, -4.55991722e-06f, 8.48181953e-05f, -0.00102926418f,
               0.00870160107f, -0.0540373139f, -0.458697766f, -1.15102279f, -1.00002754f);
    const __mmask16 is_far = _mm512_cmp_ps_mask(size, most, _CMP_EQ_OQ);
    const __m512 tail = _mm512_mask_mov_ps(power_of_2(logarithm), is_far, _mm512_setzero_ps());
    const __m512 step = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NLE_UQ), all(1));
    return _mm512_fnmadd_ps(size, tail, _mm512_mul_ps(x, step));
  }
};

// Finishes a square row by row; a row is two vectors.
template <class Activation>
class Rows {
 public:
  // So that all rows are finished in `steps` steps.
  TENON_VECTORS Rows(const SquareResult& square, uint32_t steps) noexcept
      : square_(square),
        columns_(static_cast<__mmask32>((uint64_t{1} << square.columns) - 1)),
        rows_a_step_((square.rows + steps - 1) / steps),
        bias_low_(_mm512_setzero_ps()),
        bias_high_(_mm512_setzero_ps()) {
    if (square.bias != nullptr) widen(square.bias, bias_low_, bias_high_);
  }

  TENON_VECTORS void step() noexcept {
    const uint32_t end = row_ + rows_a_step_ < square_.rows ? row_ + rows_a_step_ : square_.rows;
    for (; row_ < end; ++row_) finish(row_);
  }

 private:
  TENON_VECTORS void widen(const BF16* from, __m512& low, __m512& high) const noexcept {
    const __m512i halves = _mm512_maskz_loadu_epi16(columns_, from);
    low = widened(_mm512_castsi512_si256(halves));
    high = widened(_mm512_extracti64x4_epi64(halves, 1));
  }

  TENON_VECTORS void finish(uint32_t row) const noexcept {
    const float* const sums = square_.sums + row * square_side;
    __m512 low = _mm512_add_ps(_mm512_load_ps(sums), bias_low_),
           high = _mm512_add_ps(_mm512_load_ps(sums + tile_rows), bias_high_);
    if (square_.residual != nullptr) {
      __m512 more_low, more_high;
      widen(square_.residual + row * square_.row, more_low, more_high);
      low = _mm512_add_ps(low, more_low);
      high = _mm512_add_ps(high, more_high);
    }
    const __m512bh rounded = _mm512_cvtne2ps_pbh(Activation::of(high), Activation::of(low));
    _mm512_mask_storeu_epi16(square_.to + row * square_.row, columns_, (__m512i)rounded);
  }

  const SquareResult& square_;
  __mmask32 columns_;
  uint32_t rows_a_step_, row_ = 0;
  __m512 bias_low_, bias_high_;
};

template <class Activation>
TENON_TILES void finish(const SquareResult& square) noexcept {
  Rows<Activation> rows(square, 1);
  rows.step();
}

template <class Activation>
TENON_TILES void multiply_and_finish(const PanelPair& panels, bool accumulate, float* sums,
                                     const SquareResult& another) noexcept {
  Rows<Activation> rows(another, panels.steps);
  multiply_steps(panels, accumulate, sums, rows);
}

template <class Activation>
constexpr SquareKernels kernels_of() noexcept {
  return {.finish = finish<Activation>, .multiply_and_finish = multiply_and_finish<Activation>};
}

}  // namespace

SquareKernels square_kernels(uint32_t activation, bool variant) noexcept {
  switch (activation) {
    case TN_OP_relu:
      return kernels_of<Relu>();
    case TN_OP_gelu:
      return variant ? kernels_of<GeluTanh>() : kernels_of<Gelu>();
    case TN_OP_sigmoid:
      return kernels_of<Sigmoid>();
    case TN_OP_tanh:
      return kernels_of<Tanh>();
    case TN_OP_silu:
      return kernels_of<Silu>();
    default:
      return kernels_of<Same>();
  }
}

}  // namespace tenon::cpu

#endif
