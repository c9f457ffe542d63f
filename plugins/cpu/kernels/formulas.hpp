// SPDX-License-Identifier: Apache-2.0
// formulas.hpp: the transcendental functions of this plugin, each written once, over any type of number (numbers.hpp).
//
// The interpreter computes them, the code generator writes them down: the same operations in the same order, so both give
// the same bits. There are no branches and no tables, so loops over them vectorise.
// Invariant: f32 is off by no more than 3 ULP (e^x by little more than 1, silu by 3.1); a NaN gives a NaN, and the ends of the
// range give what C's functions give. What f32 would lose to cancellation is computed in f64 and rounded once.
#pragma once

#include "numbers.hpp"

#include <limits>

namespace tenon::cpu::formulas {

// c0 + c1·x + c2·x² …
template <class N, class... More>
TENON_CPU_LOOP N series(N x, typename N::Real first, More... more) {
  if constexpr (sizeof...(more) == 0)
    return N(first);
  else
    return madd(series(x, static_cast<typename N::Real>(more)...), x, N(first));
}

template <class N>
TENON_CPU_LOOP N copysign(N magnitude, N sign) {
  using Bits = typename N::Bits;
  using R = typename N::Real;
  const auto top = bits(N(R(-0.0)));
  const Bits rest = bits(N(std::bit_cast<R>(~std::bit_cast<typename N::Unsigned>(R(-0.0)))));
  return N::from_bits((bits(magnitude) & rest) | (bits(sign) & top));
}

// x = n·ln 2 + r, |r| ≤ ½ ln 2. `shifted` holds n in its lowest bits.
template <class R>
struct Reduction;
template <>
struct Reduction<float> {
  // Beyond: 0, of silu too, and ∞.
  static constexpr float lowest = -120.0f, highest = 89.0f;
  static constexpr float to_whole = 0x1.8p23f;  // adding it rounds to the nearest whole number
  static constexpr float per_ln2 = 0x1.715476p+0f, ln2 = 0x1.63p-1f, ln2_rest = -0x1.bd0106p-13f;
  static constexpr int mantissa = 23, bias = 127;
};
template <>
struct Reduction<double> {
  static constexpr double lowest = -760, highest = 710;
  static constexpr double to_whole = 0x1.8p52;
  static constexpr double per_ln2 = 0x1.71547652b82fep+0, ln2 = 0x1.62e42fee00000p-1,
                          ln2_rest = 0x1.a39ef35793c76p-33;
  static constexpr int mantissa = 52, bias = 1023;
};

template <class N>
struct Reduced {
  N shifted, r;
};
template <class N>
TENON_CPU_LOOP Reduced<N> reduced(N x) {
  using K = Reduction<typename N::Real>;
  const N shifted = madd(x, N(K::per_ln2), N(K::to_whole));
  const N n = shifted - N(K::to_whole);
  return {shifted, madd(n, N(-K::ln2_rest), madd(n, N(-K::ln2), x))};
}

// (e^r − 1 − r) / r²
template <class N>
TENON_CPU_LOOP N exp_tail(N r) {
  if constexpr (sizeof(typename N::Real) == 4)
    return series(r, 0.5f, 1.0f / 6, 1.0f / 24, 1.0f / 120, 1.0f / 720, 1.0f / 5040);
  else
    return series(r, 0.5, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,
                  1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0);
}

// e^x = part · first · second: 2^n in two steps reaches down into the subnormals.
template <class N>
struct Power {
  N part, first, second;
  TENON_CPU_LOOP N value() const { return part * first * second; }
};
template <class N>
TENON_CPU_LOOP Power<N> power_of_e(N x) {
  using R = typename N::Real;
  using U = typename N::Unsigned;
  using K = Reduction<R>;
  const auto [shifted, r] = reduced(lesser(N(K::highest), greater(N(K::lowest), x)));
  const auto as_bits = [](U u) __attribute__((always_inline)) { return bits(N(std::bit_cast<R>(u))); };
  // In unsigned numbers, where a NaN's bits overflow nothing.
  const auto whole = bits(shifted) - as_bits(std::bit_cast<U>(K::to_whole) - U(2 * (K::bias + 1)));
  const auto half = shr(whole, 1), rest = whole - half, one = as_bits(1);
  return {madd(exp_tail(r), r * r, r) + N(1), N::from_bits(shl(half - one, K::mantissa)),
          N::from_bits(shl(rest - one, K::mantissa))};
}

template <class N>
TENON_CPU_LOOP N exp(N x) {
  return power_of_e(x).value();
}

// exp(x) of x ≤ 0, or little above, for less.
template <class N>
TENON_CPU_LOOP N exp_of_negative(N x) {
  using R = typename N::Real;
  using U = typename N::Unsigned;
  using K = Reduction<R>;
  constexpr int lift = sizeof(R) == 4 ? 64 : 512;  // keeps the power normal until the last product
  constexpr R back = sizeof(R) == 4 ? R(0x1p-64) : R(0x1p-512);
  const auto [shifted, r] = reduced(greater(N(K::lowest), x));
  const auto zero = bits(N(std::bit_cast<R>(std::bit_cast<U>(K::to_whole) - U(K::bias + lift))));
  const N power = N::from_bits(shl(bits(shifted) - zero, K::mantissa));
  return (madd(exp_tail(r), r * r, r) + N(1)) * power * N(back);
}

// 1/(1 + e^-x) without overflow on either side.
template <class N>
TENON_CPU_LOOP N sigmoid(N x) {
  const N e = exp(-abs(x));
  return select(less(x, N(0)), e, N(1)) / (e + N(1));
}

// (e^2|x| − 1) / (e^2|x| + 1); where |x| is small the numerator is exact in its first term.
template <class N>
TENON_CPU_LOOP N tanh(N x) {
  using R = typename N::Real;
  using U = typename N::Unsigned;
  using K = Reduction<R>;
  const N held = lesser(N(sizeof(R) == 4 ? R(10) : R(20)), abs(x));  // from there on 1
  const auto [shifted, r] = reduced(held + held);
  const N less_one = madd(exp_tail(r), r * r, r);
  const auto zero = bits(N(std::bit_cast<R>(std::bit_cast<U>(K::to_whole) - U(K::bias))));
  const N power = N::from_bits(shl(bits(shifted) - zero, K::mantissa));
  const N e = madd(power, less_one, power - N(1));
  return copysign(e / (e + N(2)), x);
}

// x·sigmoid(x). The power of two comes last, so that the left tail keeps its bits; -∞ gives the NaN of -∞ · 0.
template <class N>
TENON_CPU_LOOP N silu(N x) {
  using R = typename N::Real;
  const auto left = less(x, N(0));
  const Power<N> e = power_of_e(-abs(x));
  const N held = greater(N(Reduction<R>::lowest), x);
  const N turned = held * select(left, e.part, N(1)) / (e.value() + N(1));
  const N scaled = turned * select(left, e.first, N(1)) * select(left, e.second, N(1));
  return madd(select(left, x, N(R(-0.0))), N(0), scaled);
}

// What x is as 2^k · m with m from √½ to √2; of a positive f32.
template <class N>
struct Split {
  N k, m;
};
template <class N>
TENON_CPU_LOOP Split<N> split(N x) {
  const auto tiny = less(x, N(0x1p-126f));
  const auto whole = bits(select(tiny, x * N(0x1p23f), x));
  const auto k = sar(whole - bits(N(0x1.6a09e6p-1f)), 23);
  return {N::from_whole(k) + select(tiny, N(-23), N(0)), N::from_bits(whole - shl(k, 23))};
}

// ln x of an f32.
template <class N>
TENON_CPU_LOOP N log(N x) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  using K = Reduction<float>;
  const auto [k, m] = split(x);
  const N f = m - N(1);
  // Minimax on [√½ − 1, √2 − 1] of (ln(1 + f) − f + f²/2) / f³.
  const N cubic = series(f, 0.3333333118f, -0.2499999696f, 0.2000071575f, -0.1666780232f, 0.1424905765f,
                         -0.1242568733f, 0.1168541992f, -0.1147973385f, 0.06971611471f);
  const N square = f * f;
  const N low = madd(square, N(-0.5f), madd(k, N(K::ln2_rest), cubic * (square * f)));
  const N finite = madd(k, N(K::ln2), f + low);
  const N upper = select(less(x, N(infinity)), finite, x);  // ∞, and NaN
  const N least = select(equal(x, N(0)), N(-infinity), upper);
  return select(less(x, N(0)), N(std::numeric_limits<float>::quiet_NaN()), least);
}

// Φ(-|x|) in f64, to 2^-50 of itself down to where f32 ends: e^(-x²/2) times ½ e^(t²) erfc t at t = |x|/√2.
template <class W>
TENON_CPU_LOOP W normal_tail(W x) {
  const W t = lesser(W(11), abs(x) * W(0x1.6a09e667f3bcdp-1));
  const W u = (t - W(3)) / (t + W(3));
  // Minimax on [-1, 4/7].
  const W scaled =
      series(u, 0x1.6e9827d229d2dp-4, -0x1.4e102b9cf8517p-3, 0x1.f6ff2041059eap-4, -0x1.336ffbef08875p-4,
             0x1.258b13b0141adp-5, -0x1.8fa58eb609021p-7, 0x1.17c838f3bcacep-9, 0x1.73101edf12788p-12,
             -0x1.39084e3d4533bp-12, 0x1.7ba0c0bbda78ap-16, 0x1.0cac95094c777p-15, -0x1.af7fd8f12f1d0p-18,
             -0x1.0bbe45a259811p-18, 0x1.1c139dd882f95p-20, 0x1.50ba1372cad51p-21, -0x1.31e1fdf208117p-23,
             -0x1.f5746f20d0688p-24, 0x1.0b4d88312408ap-27, 0x1.4c388645e2e4fp-26, 0x1.1b03b405f9c0fp-28);
  return exp(x * x * W(-0.5)) * scaled;
}
// Φ(x) = ½ (1 + erf(x/√2)) of an f32 in f64.
template <class W>
TENON_CPU_LOOP W normal(W x) {
  const W tail = normal_tail(x);
  return select(less(x, W(0)), tail, W(1) - tail);
}

template <class N>
TENON_CPU_LOOP N gelu(N x) {
  const auto w = widen(x);
  return N::narrowed(w * normal(w));
}

template <class N>
TENON_CPU_LOOP N gelu_grad(N dy, N x) {
  using W = typename N::Wide;
  const W w = widen(x);
  const W density = W(0x1.9884533d43651p-2) * exp(w * w * W(-0.5));
  return N::narrowed(widen(dy) * (normal(w) + w * density));
}

// erf of an f32: 1 − 2Φ(-√2|x|), and close to 0, where that cancels, its first two terms.
template <class N>
TENON_CPU_LOOP N erf(N x) {
  using W = typename N::Wide;
  const W w = widen(x), magnitude = abs(w);
  const W far = W(1) - W(2) * normal_tail(magnitude * W(0x1.6a09e667f3bcdp+0));
  const W near = magnitude * W(0x1.20dd750429b6dp+0) * madd(magnitude * magnitude, W(-1.0 / 3), W(1));
  return N::narrowed(copysign(select(less(magnitude, W(0x1p-10)), near, far), w));
}

inline constexpr double gelu_linear = 0.79788456080286535588;  // √(2/π)
inline constexpr double gelu_cubic = 0.044715;

// ½(1 + tanh u) is sigmoid(2u), and what is left to 1 is sigmoid(-2u).
template <class W>
TENON_CPU_LOOP W gelu_turn(W x) {
  return W(2 * gelu_linear) * (x + W(gelu_cubic) * x * x * x);
}
template <class N>
TENON_CPU_LOOP N gelu_tanh(N x) {
  const auto w = widen(x);
  return N::narrowed(w * sigmoid(gelu_turn(w)));
}
template <class N>
TENON_CPU_LOOP N gelu_tanh_grad(N dy, N x) {
  using W = typename N::Wide;
  const W w = widen(x), turn = gelu_turn(w), gate = sigmoid(turn), bend = gate * sigmoid(-turn);
  const W slope = W(gelu_linear) * (W(1) + W(3 * gelu_cubic) * w * w);
  // Far out nothing is left of the bend, and the slope may be infinite.
  return N::narrowed(widen(dy) * select(less(W(0), bend), gate + W(2) * w * bend * slope, gate));
}

template <class N>
TENON_CPU_LOOP N silu_grad(N dy, N x) {
  using W = typename N::Wide;
  const W w = widen(x), gate = sigmoid(w);
  return N::narrowed(widen(dy) * (gate * (W(1) + w * sigmoid(-w))));
}

// ln x of a positive finite f32 in f64, to 2^-38 of itself.
template <class N>
TENON_CPU_LOOP typename N::Wide log_wide(N x) {
  using W = typename N::Wide;
  const auto [k, m] = split(x);
  const W f = widen(m - N(1));
  const W s = f / (f + W(2)), square = s * s;
  const W odd = series(square, 2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13) * s;
  return madd(widen(k), W(0x1.62e42fefa39efp-1), odd);
}

// x^y of f32, with C's answers at 0, ±1, ±∞ and NaN.
template <class N>
TENON_CPU_LOOP N pow(N x, N y) {
  using W = typename N::Wide;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const N magnitude = abs(x);
  const W wide = widen(magnitude);
  const W top = select(less(wide, W(infinity)), log_wide(magnitude), wide);  // ∞, and NaN
  const W ln = select(equal(wide, W(0)), W(-infinity), top);
  // 1 to any power, and anything to the power 0, is 1.
  const W exact = select(equal(y, N(0)), W(0), widen(y) * ln);
  const W turn = select(equal(x, N(1)), W(0), exact);
  const W raised = exp(select(equal(magnitude, N(1)), select(equal(y, y), W(0), turn), turn));
  const N half = y * N(0.5f);
  const auto whole = equal(floor(y), y), even = equal(floor(half), half);
  // A negative x: an odd power has its sign, and a fraction of a finite one there is none of.
  const N sign = select(whole, select(even, N(1), x), N(1));
  const N result = copysign(N::narrowed(raised), sign);
  const N some = select(whole, result, N(std::numeric_limits<float>::quiet_NaN()));
  const N finite = select(less(magnitude, N(std::numeric_limits<float>::infinity())), some, result);
  return select(less(x, N(0)), finite, result);
}

}  // namespace tenon::cpu::formulas
