// SPDX-License-Identifier: Apache-2.0
// traced.hpp: numbers that write down what is computed with them: formulas.hpp's other kind (numbers.hpp has the first).
//
// A constant belongs to no program until it meets a number that does.
// Invariant: what Scalar computes with `fused`, the program that a Traced writes computes in every lane, bit for bit.
#pragma once

#include "../half.hpp"
#include "program.hpp"

#include <bit>
#include <cmath>
#include <type_traits>

namespace tenon::cpu::jit {

// An operand: a value of a program, or a constant.
struct Node {
  Program* program = nullptr;
  uint32_t value = none;
  uint64_t bits = 0;  // of a constant
  uint8_t bytes = 4;

  uint32_t in(Program& one) const {
    return program != nullptr ? value : one.add({.op = Op::constant, .bytes = bytes, .bits = bits});
  }
};

// One of the operands belongs to a program. The result's lanes are as wide as the first operand's.
inline Node trace(Op op, const Node& a, const Node& b = {}, const Node& c = {}, uint32_t imm = 0,
                  int operands = 2) {
  Program* const its = a.program != nullptr ? a.program : b.program != nullptr ? b.program : c.program;
  if (its == nullptr) __builtin_unreachable();
  Program& program = *its;
  Operation o{.op = op, .bytes = a.bytes, .imm = imm};
  o.operands[0] = a.in(program);
  if (operands > 1) o.operands[1] = b.in(program);
  if (operands > 2) o.operands[2] = c.in(program);
  return {.program = &program, .value = program.add(o), .bytes = a.bytes};
}
inline Node trace_to(Op op, const Node& a, uint8_t bytes) {
  return {.program = a.program,
          .value = a.program->add({.op = op, .bytes = bytes, .operands = {a.value, none, none}}),
          .bytes = bytes};
}

template <class U>
struct TracedWord {
  Node node;

  friend TracedWord operator+(TracedWord a, TracedWord b) { return {trace(Op::word_add, a.node, b.node)}; }
  friend TracedWord operator-(TracedWord a, TracedWord b) { return {trace(Op::word_sub, a.node, b.node)}; }
  friend TracedWord operator&(TracedWord a, TracedWord b) { return {trace(Op::bit_and, a.node, b.node)}; }
  friend TracedWord operator|(TracedWord a, TracedWord b) { return {trace(Op::bit_or, a.node, b.node)}; }
  friend TracedWord shl(TracedWord a, int by) { return shifted(Op::shl, a, by); }
  friend TracedWord shr(TracedWord a, int by) { return shifted(Op::shr, a, by); }
  friend TracedWord sar(TracedWord a, int by) { return shifted(Op::sar, a, by); }

 private:
  static TracedWord shifted(Op op, TracedWord a, int by) {
    return {trace(op, a.node, {}, {}, static_cast<uint32_t>(by), 1)};
  }
};

// Lanes of all ones or zeros, as wide as what was compared.
struct TracedMask {
  Node node;

  TracedMask as_wide_as(uint8_t bytes) const {
    if (node.bytes == bytes) return *this;
    return {trace_to(bytes == 8 ? Op::widen_mask : Op::narrow_mask, node, bytes)};
  }
  friend TracedMask operator&(TracedMask a, TracedMask b) {
    return {trace(Op::bit_and, a.as_wide_as(4).node, b.as_wide_as(4).node)};
  }
  friend TracedMask operator|(TracedMask a, TracedMask b) {
    return {trace(Op::bit_or, a.as_wide_as(4).node, b.as_wide_as(4).node)};
  }
  friend TracedMask inverse(TracedMask a) {
    return {trace(Op::bit_xor, a.as_wide_as(4).node, Node{.bits = UINT32_MAX})};
  }
};

template <class R>
struct Traced {
  using Real = R;
  using Unsigned = std::conditional_t<sizeof(R) == 4, uint32_t, uint64_t>;
  using Bits = TracedWord<Unsigned>;
  using Mask = TracedMask;
  using Wide = Traced<double>;
  Node node;

  Traced() = default;
  Traced(R constant) : node{.bits = std::bit_cast<Unsigned>(constant), .bytes = sizeof(R)} {}
  explicit Traced(const Node& one) : node(one) {}

  friend Traced operator+(Traced a, Traced b) { return two(Op::add, a, b); }
  friend Traced operator-(Traced a, Traced b) { return two(Op::sub, a, b); }
  friend Traced operator*(Traced a, Traced b) { return two(Op::mul, a, b); }
  friend Traced operator/(Traced a, Traced b) { return two(Op::div, a, b); }
  friend Traced operator-(Traced a) { return two(Op::bit_xor, a, Traced(R(-0.0))); }
  friend Traced abs(Traced a) {
    return two(Op::bit_and, a, from_constant(~std::bit_cast<Unsigned>(R(-0.0))));
  }
  friend Traced sqrt(Traced a) { return one(Op::sqrt, a); }
  friend Traced floor(Traced a) { return one(Op::floor, a); }
  friend Traced fma(Traced a, Traced b, Traced c) {
    return Traced(trace(Op::fma, a.node, b.node, c.node, 0, 3));
  }
  friend Traced madd(Traced a, Traced b, Traced c) { return fma(a, b, c); }
  friend Traced rest_of_product(Traced a, Traced b, Traced product) { return fma(a, b, -product); }
  friend Traced lesser(Traced a, Traced b) { return two(Op::lesser, a, b); }
  friend Traced greater(Traced a, Traced b) { return two(Op::greater, a, b); }

  friend Mask less(Traced a, Traced b) { return compared(Comparison::less, a, b); }
  friend Mask less_equal(Traced a, Traced b) { return compared(Comparison::less_equal, a, b); }
  friend Mask equal(Traced a, Traced b) { return compared(Comparison::equal, a, b); }
  friend Mask not_equal(Traced a, Traced b) { return compared(Comparison::not_equal, a, b); }
  friend Traced select(Mask mask, Traced a, Traced b) {
    return Traced(trace(Op::select, mask.as_wide_as(sizeof(R)).node, a.node, b.node, 0, 3));
  }

  friend Bits bits(Traced a) { return {a.node}; }
  static Traced from_bits(Bits a) { return Traced(a.node); }
  static Traced from_whole(TracedWord<uint32_t> a) {
    return Traced(trace_to(Op::from_whole, a.node, sizeof(R)));
  }
  friend Wide widen(Traced a) {
    if constexpr (sizeof(R) == 8)
      return a;
    else
      return a.node.program != nullptr ? Wide(trace_to(Op::widen, a.node, 8))
                                       : Wide(std::bit_cast<R>(static_cast<Unsigned>(a.node.bits)));
  }
  static Traced narrowed(Wide a) {
    if constexpr (sizeof(R) == 8)
      return a;
    else
      return Traced(trace_to(Op::narrow, a.node, 4));
  }

 private:
  static Traced from_constant(Unsigned bits) { return Traced(std::bit_cast<R>(bits)); }
  static Traced one(Op op, Traced a) { return Traced(trace(op, a.node, {}, {}, 0, 1)); }
  static Traced two(Op op, Traced a, Traced b) { return Traced(trace(op, a.node, b.node)); }
  static Mask compared(Comparison by, Traced a, Traced b) {
    return {trace(Op::compare, a.node, b.node, {}, static_cast<uint32_t>(by))};
  }
};

// What author/half.hpp's conversions leave in an f32: rounded to the half type, and wide again.
// The upper half is bf16's; what is below is cut off.
inline Traced<float> nearest_bf16(Traced<float> x) {
  using Bits = Traced<float>::Bits;
  const auto word = [](uint32_t u) { return Bits{Node{.bits = u}}; };
  const Bits u = bits(x);
  const Bits rounded = u + word(0x7fff) + (shr(u, 16) & word(1)), quiet = u | word(0x400000);
  return select(equal(x, x), Traced<float>::from_bits(rounded), Traced<float>::from_bits(quiet));
}
inline Traced<float> rounded_to_bf16(Traced<float> x) {
  return Traced<float>::from_bits(bits(nearest_bf16(x)) & Traced<float>::Bits{Node{.bits = 0xffff0000}});
}
inline Traced<float> rounded_to_f16(Traced<float> x) {
  return Traced<float>(trace(Op::round_f16, x.node, {}, {}, 0, 1));
}
// As half.hpp's to_odd.
inline Traced<float> to_odd(Traced<double> x) {
  using N = Traced<float>;
  const N nearest = N::narrowed(x);
  const auto back = widen(nearest);
  const auto word = [](uint32_t u) { return N::Bits{Node{.bits = u}}; };
  const N below = select(less(abs(x), abs(back)), N::from_bits(bits(nearest) - word(1)), nearest);
  return select(not_equal(back, x), select(equal(x, x), N::from_bits(bits(below) | word(1)), nearest),
                nearest);
}

}  // namespace tenon::cpu::jit
