// SPDX-License-Identifier: Apache-2.0
// assembler.hpp: a program as a loop of AVX2 or AVX-512 instructions, by Xbyak.
//
// One value, one register: a loop has as many lanes as its widest type leaves room for, so f32 beside f64 takes half a
// register. Constants are read from behind the code. No stack is used but for the registers that a caller expects back.
// Invariant: an operation is the instruction that numbers.hpp describes; operands are not reordered where NaN would show it.
#pragma once

#include "registers.hpp"

#include <tenon/author/names.hpp>

#include <xbyak/xbyak.h>

#include <utility>

namespace tenon::cpu::jit {

using Xbyak::Operand;
using Xbyak::Reg64;
using Xbyak::Xmm;

// Loops of fewer operations are written several times over; those of more are long enough to hide a fetch.
inline constexpr size_t heavy_from = 16;
inline constexpr int most_copies = 4;  // of the program in one iteration

class Assembler final : private Xbyak::CodeGenerator {
 public:
  // `bytes` is room for all instructions and constants. The program outlives assemble(). Throws Xbyak::Error.
  Assembler(const Program& program, bool avx512, size_t bytes);

  uint32_t lanes() const { return static_cast<uint32_t>(vector_bytes_ / widest_); }

  // Writes and seals the code. Where its loops begin: the one through the caches, and the one past them, if any result is to
  // go there. Throws std::length_error when values outnumber registers.
  std::pair<const uint8_t*, const uint8_t*> assemble();

 private:
  // The last three are for what an operation needs on its way.
  int value_registers() const { return (avx512_ ? 32 : 16) - 3; }
  // k0 means none, and k1 is left to instructions on their way.
  static constexpr int first_mask = 2;
  int mask_registers() const { return avx512_ ? 6 : 0; }
  int temporary(int i) const { return value_registers() + i; }
  // As wide as all lanes of so many bytes.
  Xmm vector(int r, int bytes) const {
    const int width = vector_bytes_ / widest_ * bytes;
    return {width == 64 ? Operand::ZMM : width == 32 ? Operand::YMM : Operand::XMM, r};
  }
  Xmm low(const Xmm& x) const { return Xmm(x.getIdx()); }
  // The register half as wide, of which 16 bytes are the least.
  static Xmm half(const Xmm& x) { return {x.isZMM() ? Operand::YMM : Operand::XMM, x.getIdx()}; }

  // The loop.
  const uint8_t* emit_function(bool past_cache);
  void emit_loop(int copies, Xbyak::Label& rest);
  // The program for vectors [from, to) of an iteration, operation by operation: what waits for itself in one vector leaves
  // room for the others.
  void emit_bodies(int from, int to);
  // Pointers have registers as far as those go; rdi leads to the rest.
  std::vector<Reg64> fixed() const { return {rcx, rdx, r8, r9, r10, r11, rbx, rbp, r12, r13, r14}; }
  std::vector<Reg64> kept() const { return {rbx, rbp, r12, r13, r14, r15}; }
  Xbyak::RegExp place(uint32_t memory, int k);
  int element_bytes(uint32_t memory) const {
    return static_cast<int>(author::dtype_bits(program_.memory[memory].dtype) / 8);
  }

  // Operands.
  // A value's register; a constant is brought into a temporary.
  Xmm reg(uint32_t value, int bytes, int spare) {
    if (!registers_->is_constant(value)) return vector(registers_->of(value), bytes);
    const Xmm x = vector(temporary(spare), bytes);
    bring_constant(x, value, bytes);
    return x;
  }
  void bring_constant(const Xmm& x, uint32_t value, int bytes);
  // Eight bytes a lane fill no register narrower than 32.
  void bring_double(const Xmm& x, const Xbyak::Address& from);
  Xbyak::Label& label(uint32_t value) {
    constants_[value].used = true;
    return constants_[value].label;
  }
  // Calls f with a value's register or, of a constant, with its memory.
  template <class F>
  void with(uint32_t value, int bytes, F&& f) {
    if (!registers_->is_constant(value))
      f(static_cast<const Operand&>(vector(registers_->of(value), bytes)));
    else if (avx512_)
      f(static_cast<const Operand&>(ptr_b[rip + label(value)]));
    else
      f(static_cast<const Operand&>(ptr[rip + label(value)]));
  }
  void emit_constants();

  // Operations.
  void emit(uint32_t i, int k);
  // a op b, of which b may be a constant.
  void emit_two(uint32_t i);
  // What may be turned round so that a constant comes second: where two NaN meet, none is a constant.
  std::pair<uint32_t, uint32_t> ordered(const Operation& o) const;
  void two(const Operation& o, const Xmm& d, const Xmm& a, const Operand& b);
  void emit_one(uint32_t i);
  void emit_from_whole(uint32_t i);
  void emit_floor(const Xmm& d, const Xmm& a, bool wide);
  // a·b + c in the register of an operand that is not read again, or in a copy of c.
  void emit_fma(uint32_t i);
  void emit_fma_over_factor(uint32_t i, uint32_t a, uint32_t b, uint32_t c);
  void emit_compare(uint32_t i);
  void emit_select(uint32_t i);
  // From 4 bytes a lane to 8, or back.
  void emit_resized(uint32_t i);

  // Memory.
  void emit_load(uint32_t i, int k);
  void emit_store(uint32_t i, int k);
  void put(const Xbyak::RegExp& at, const Xmm& x, const Memory& memory);
  // All lanes, of so many bytes each, from the low end of a register.
  void put_part(const Xbyak::RegExp& at, int r, int bytes, const Memory& memory);
  // The low halves, and the low bytes, of the first temporary's 4-byte lanes, side by side.
  void pack_words();
  void pack_bytes();

  struct Constant {
    Xbyak::Label label;
    bool used = false;
  };

  const Program& program_;
  bool avx512_;
  int vector_bytes_;
  int widest_ = 4;
  bool past_cache_ = false;
  int abreast_;                     // how many vectors the registers are enough for
  Registers* registers_ = nullptr;  // of the vector that is being written
  std::vector<Constant> constants_;
};

}  // namespace tenon::cpu::jit
