// SPDX-License-Identifier: Apache-2.0
// formulas.hpp: the transcendental functions of this plugin, each written once, over any type of number (numbers.hpp).
//
// The interpreter computes them, the code generator writes them down: the same operations in the same order, so both give
// the same bits. There are no branches and no tables, so loops over them vectorise.
// Invariant: f32 is off by no more than 3 ULP (e^x by little more than 1, silu by 3.1, gelu by 6.4), gradients by two ULP of 1 where
// that is more. A NaN gives a NaN, and the ends of the range give what C's functions give.
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
  static constexpr int mantissa = 23, bias = 127, lift = 64;
  static constexpr float back = 0x1p-64f;
};
template <>
struct Reduction<double> {
  static constexpr double lowest = -760, highest = 710;
  static constexpr double to_whole = 0x1.8p52;
  static constexpr double per_ln2 = 0x1.71547652b82fep+0, ln2 = 0x1.62e42fee00000p-1,
                          ln2_rest = 0x1.a39ef35793c76p-33;
  static constexpr int mantissa = 52, bias = 1023, lift = 512;
  static constexpr double back = 0x1p-512;
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

// e^r · power, where x = n·ln 2 + r and the power is 2^n, lifted so that it stays normal until a last product with `back`.
template <class N>
TENON_CPU_LOOP N lifted_exp(Reduced<N> x) {
  using R = typename N::Real;
  using U = typename N::Unsigned;
  using K = Reduction<R>;
  const auto zero = bits(N(std::bit_cast<R>(std::bit_cast<U>(K::to_whole) - U(K::bias + K::lift))));
  const N power = N::from_bits(shl(bits(x.shifted) - zero, K::mantissa));
  return (madd(exp_tail(x.r), x.r * x.r, x.r) + N(1)) * power;
}
// exp(x) of x ≤ 0, or little above, for less.
template <class N>
TENON_CPU_LOOP N exp_of_negative(N x) {
  using K = Reduction<typename N::Real>;
  return lifted_exp(reduced(greater(N(K::lowest), x))) * N(K::back);
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

// The normal distribution at z = |x|, of an f32: e^(-z²/2) is lifted · back, and Φ(-z) that times `scaled`.
template <class N>
struct Normal {
  N lifted, back, scaled;
  TENON_CPU_LOOP N lifted_tail() const { return lifted * scaled; }
};
template <class N>
TENON_CPU_LOOP Normal<N> normal(N x) {
  static_assert(sizeof(typename N::Real) == 4, "what follows is right to a float's last bits");
  using K = Reduction<float>;
  const N nothing(14.5f), z = lesser(N(15), abs(x));  // beyond `nothing` all is 0
  // z² in two parts: the head's 12 bits have a square of 24.
  const N head = N::from_bits(bits(z) & bits(N(std::bit_cast<float>(0xfffff000u))));
  const N rest = (z - head) * (z + head) * N(-0.5f);
  const auto [shifted, r] = reduced(head * head * N(-0.5f));
  // Where that vanishes nothing is multiplied: what is too small costs processors a hundred cycles.
  const N back = select(less(nothing, z), N(0), N(K::back));
  const N q = N(1) / (z + N(4)), u = (z - N(4)) * q;
  // Minimax on [-1, 0.58] of (z + 4) ½ e^(z²/2) erfc(z/√2), which falls from 2 to 0.5, to 1e-8 of it.
  const N near_one =
      series(u, 0.7552851439f, -0.6078965664f, 0.3871369064f, -0.186523661f, 0.06040348858f, -0.007524004206f,
             -0.00351021043f, 0.001568408217f, 0.0001746585767f, -0.0001341967145f);
  return {lifted_exp(Reduced<N>{shifted, r + rest}), back, near_one * q};
}

// x·Φ(x). The power of two comes last, so that the left tail keeps its bits; -∞ gives the NaN of -∞ · 0.
template <class N>
TENON_CPU_LOOP N gelu(N x) {
  const Normal<N> n = normal(x);
  const N tail = n.lifted_tail();
  const auto left = less(x, N(0));
  return x * select(left, tail, N(1) - tail * n.back) * select(left, n.back, N(1));
}

// dy · slope. An infinite gradient goes on as it does in f64 where a slope vanished in f32: below 0, until x is at `end`.
template <class N>
TENON_CPU_LOOP N through(N dy, N slope, N x, typename N::Real end) {
  if constexpr (sizeof(typename N::Real) == 8) {
    return dy * slope;
  } else {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const N sign = select(less(N(end), x), N(-1), N(0));
    const N vanished = select(less(abs(dy), N(infinity)), N(0), sign);
    return dy * select(equal(slope, N(0)), vanished, slope);
  }
}

// Φ(x) + x·φ(x), which is to 1 what it is at -x to 0; of ±∞ the NaN of ∞ · 0.
template <class N>
TENON_CPU_LOOP N gelu_grad(N dy, N x) {
  const Normal<N> n = normal(x);
  const N left = n.lifted * madd(abs(x), N(-0.3989422804f), n.scaled) * n.back;
  return through(dy, select(less(x, N(0)), left, N(1) - left), x, -38.5f);
}

// 1 − 2Φ(-√2|x|), and close to 0, where that cancels, x by a polynomial of x².
template <class N>
TENON_CPU_LOOP N erf(N x) {
  const N magnitude = abs(x);
  const Normal<N> n = normal(magnitude * N(1.414213562f));
  const N far = madd(n.lifted_tail() * n.back, N(-2), N(1));
  const N near = magnitude * series(x * x, 1.128379107f, -0.3761253357f, 0.1128223017f, -0.0267819576f,
                                    0.005016228184f, -0.0006111292168f);
  return copysign(select(less(magnitude, N(0.9f)), near, far), x);
}

inline constexpr double gelu_linear = 0.79788456080286535588;  // √(2/π)
inline constexpr double gelu_cubic = 0.044715;

// ½(1 + tanh u) is sigmoid(2u).
template <class N>
TENON_CPU_LOOP N gelu_turn(N x) {
  using R = typename N::Real;
  return N(R(2 * gelu_linear)) * madd(x * x, N(R(gelu_cubic)) * x, x);
}
// gelu_turn(|x|) as a sum of two; of |x| as if it were `most` at most.
template <class N>
struct InTwo {
  N sum, rest;
};
template <class N>
TENON_CPU_LOOP InTwo<N> gelu_turn_in_two(N x, typename N::Real most) {
  using R = typename N::Real;
  constexpr R first = R(2 * gelu_linear), first_rest = R(2 * gelu_linear - first);
  constexpr R third = R(2 * gelu_linear * gelu_cubic), third_rest = R(2 * gelu_linear * gelu_cubic - third);
  const N m = lesser(N(most), abs(x));
  const N square = m * m, square_rest = rest_of_product(m, m, square);
  const N p = square * N(third);
  const N p_rest =
      madd(square_rest, N(third), madd(square, N(third_rest), rest_of_product(square, N(third), p)));
  const N v = p + N(first), back = v - N(first);
  const N v_rest = (N(first) - (v - back)) + (p - back) + (p_rest + N(first_rest));
  const N turn = m * v;
  return {turn, madd(m, v_rest, rest_of_product(m, v, turn))};
}
// An error of the turn is the left tail's, as many times as the turn is large.
template <class N>
TENON_CPU_LOOP N gelu_tanh(N x) {
  using R = typename N::Real;
  using K = Reduction<R>;
  constexpr bool narrow = sizeof(R) == 4;
  const N nothing(narrow ? R(110) : R(750));  // beyond, the tail is 0
  const InTwo<N> turn = gelu_turn_in_two(x, narrow ? R(16) : R(32));
  const N held = lesser(N(-K::lowest), turn.sum);
  const auto [shifted, r] = reduced(-held);
  const N lifted = lifted_exp(Reduced<N>{shifted, r - turn.rest});
  const N back = select(less(nothing, held), N(0), N(K::back));
  const auto left = less(x, N(0));
  return x * select(left, lifted, N(1)) / madd(lifted, back, N(1)) * select(left, back, N(1));
}

// sigmoid(x), and what it leaves to 1.
template <class N>
struct Gates {
  N gate, rest;
};
template <class N>
TENON_CPU_LOOP Gates<N> gates(N x) {
  const N e = exp(-abs(x)), larger = N(1) / (e + N(1)), smaller = e * larger;
  const auto left = less(x, N(0));
  return {select(left, smaller, larger), select(left, larger, smaller)};
}

template <class N>
TENON_CPU_LOOP N gelu_tanh_grad(N dy, N x) {
  using R = typename N::Real;
  const auto [gate, rest] = gates(gelu_turn(x));
  const N bend = gate * rest, slope = madd(x * x, N(R(6 * gelu_linear * gelu_cubic)), N(R(2 * gelu_linear)));
  // Far out nothing is left of the bend, and the slope may be infinite.
  return through(dy, select(less(N(0), bend), madd(x * bend, slope, gate), gate), x, R(-21.5));
}

template <class N>
TENON_CPU_LOOP N silu_grad(N dy, N x) {
  const auto [gate, rest] = gates(x);
  using R = typename N::Real;
  return through(dy, gate * madd(x, rest, N(1)), x, R(-745));
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
