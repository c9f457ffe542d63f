// SPDX-License-Identifier: Apache-2.0
// operations.cpp: the instructions of each operation between registers.
//
// Invariant: where an operation is several instructions, no operand is read after its result's register is written.
#include "assembler.hpp"

namespace tenon::cpu::jit {

void Assembler::emit(uint32_t i, int k) {
  const Operation& o = program_.operations[i];
  switch (o.op) {
    case Op::constant:
      return;
    case Op::load:
      return emit_load(i, k);
    case Op::store:
      emit_store(i, k);
      return registers_->release_operands(i);
    case Op::fma:
      return emit_fma(i);
    case Op::compare:
      return emit_compare(i);
    case Op::select:
      return emit_select(i);
    case Op::widen_mask:
    case Op::narrow_mask:
    case Op::widen:
    case Op::narrow:
      return emit_resized(i);
    case Op::from_whole:
      return emit_from_whole(i);
    case Op::sqrt:
    case Op::floor:
    case Op::round_f16:
    case Op::shl:
    case Op::shr:
    case Op::sar:
      return emit_one(i);
    default:
      return emit_two(i);
  }
}

void Assembler::emit_two(uint32_t i) {
  const Operation& o = program_.operations[i];
  const auto [p, q] = ordered(o);
  const Xmm a = reg(p, o.bytes, 0);
  with(q, o.bytes, [&](const Operand& b) {
    const Xmm d = vector(registers_->take(i), o.bytes);
    two(o, d, a, b);
  });
}

std::pair<uint32_t, uint32_t> Assembler::ordered(const Operation& o) const {
  const bool turns = o.op == Op::add || o.op == Op::mul || o.op == Op::bit_and || o.op == Op::bit_or ||
                     o.op == Op::bit_xor || o.op == Op::word_add;
  if (turns && registers_->is_constant(o.operands[0])) return {o.operands[1], o.operands[0]};
  return {o.operands[0], o.operands[1]};
}

void Assembler::two(const Operation& o, const Xmm& d, const Xmm& a, const Operand& b) {
  const bool wide = o.bytes == 8;
  switch (o.op) {
    case Op::add:
      return wide ? vaddpd(d, a, b) : vaddps(d, a, b);
    case Op::sub:
      return wide ? vsubpd(d, a, b) : vsubps(d, a, b);
    case Op::mul:
      return wide ? vmulpd(d, a, b) : vmulps(d, a, b);
    case Op::div:
      return wide ? vdivpd(d, a, b) : vdivps(d, a, b);
    case Op::lesser:
      return wide ? vminpd(d, a, b) : vminps(d, a, b);
    case Op::greater:
      return wide ? vmaxpd(d, a, b) : vmaxps(d, a, b);
    case Op::bit_and:
      return wide ? vandpd(d, a, b) : vandps(d, a, b);
    case Op::bit_or:
      return wide ? vorpd(d, a, b) : vorps(d, a, b);
    case Op::bit_xor:
      return wide ? vxorpd(d, a, b) : vxorps(d, a, b);
    case Op::word_add:
      return wide ? vpaddq(d, a, b) : vpaddd(d, a, b);
    default:
      return wide ? vpsubq(d, a, b) : vpsubd(d, a, b);
  }
}

void Assembler::emit_one(uint32_t i) {
  const Operation& o = program_.operations[i];
  const bool wide = o.bytes == 8;
  const Xmm a = reg(o.operands[0], o.bytes, 0);
  const Xmm d = vector(registers_->take(i), o.bytes);
  const auto by = static_cast<uint8_t>(o.imm);
  switch (o.op) {
    case Op::sqrt:
      return wide ? vsqrtpd(d, a) : vsqrtps(d, a);
    case Op::floor:
      return emit_floor(d, a, wide);
    case Op::round_f16:
      vcvtps2ph(half(vector(temporary(0), 4)), a, 0);
      return vcvtph2ps(d, half(vector(temporary(0), 4)));
    case Op::shl:
      return wide ? vpsllq(d, a, by) : vpslld(d, a, by);
    case Op::shr:
      return wide ? vpsrlq(d, a, by) : vpsrld(d, a, by);
    default:
      return vpsrad(d, a, by);
  }
}

void Assembler::emit_from_whole(uint32_t i) {
  const Operation& o = program_.operations[i];
  const Xmm a = reg(o.operands[0], 4, 0);
  const Xmm d = vector(registers_->take(i), o.bytes);
  o.bytes == 8 ? vcvtdq2pd(d, a) : vcvtdq2ps(d, a);
}

void Assembler::emit_floor(const Xmm& d, const Xmm& a, bool wide) {
  constexpr uint8_t down = 9;  // and without a flag for what is cut off
  if (avx512_)
    wide ? vrndscalepd(d, a, down) : vrndscaleps(d, a, down);
  else
    wide ? vroundpd(d, a, down) : vroundps(d, a, down);
}

void Assembler::emit_fma(uint32_t i) {
  const Operation& o = program_.operations[i];
  uint32_t a = o.operands[0], b = o.operands[1];
  const uint32_t c = o.operands[2];
  if (registers_->is_constant(a)) std::swap(a, b);
  if (registers_->dies(c, i)) {
    const Xmm x = reg(a, o.bytes, 0);
    return with(b, o.bytes, [&](const Operand& y) {
      const Xmm d = vector(registers_->take_over(i, c), o.bytes);
      o.bytes == 8 ? vfmadd231pd(d, x, y) : vfmadd231ps(d, x, y);
    });
  }
  if (!registers_->dies(a, i) && registers_->dies(b, i)) std::swap(a, b);
  if (registers_->dies(a, i)) return emit_fma_over_factor(i, a, b, c);
  const Xmm x = reg(a, o.bytes, 0);
  with(b, o.bytes, [&](const Operand& y) {
    const Xmm d = vector(registers_->take_apart(i), o.bytes);
    if (registers_->is_constant(c))
      bring_constant(d, c, o.bytes);
    else
      vmovaps(d, vector(registers_->of(c), o.bytes));
    o.bytes == 8 ? vfmadd231pd(d, x, y) : vfmadd231ps(d, x, y);
  });
}

void Assembler::emit_fma_over_factor(uint32_t i, uint32_t a, uint32_t b, uint32_t c) {
  const int bytes = program_.operations[i].bytes;
  if (registers_->is_constant(b)) {
    const Xmm z = reg(c, bytes, 0);
    return with(b, bytes, [&](const Operand& y) {
      const Xmm d = vector(registers_->take_over(i, a), bytes);
      bytes == 8 ? vfmadd132pd(d, z, y) : vfmadd132ps(d, z, y);
    });
  }
  const Xmm y = reg(b, bytes, 0);
  with(c, bytes, [&](const Operand& z) {
    const Xmm d = vector(registers_->take_over(i, a), bytes);
    bytes == 8 ? vfmadd213pd(d, y, z) : vfmadd213ps(d, y, z);
  });
}

void Assembler::emit_compare(uint32_t i) {
  static constexpr uint8_t predicates[] = {0x00, 0x04, 0x11, 0x12};  // EQ_OQ NEQ_UQ LT_OQ LE_OQ
  const Operation& o = program_.operations[i];
  const uint8_t by = predicates[o.imm];
  const bool wide = o.bytes == 8;
  const Xmm a = reg(o.operands[0], o.bytes, 0);
  with(o.operands[1], o.bytes, [&](const Operand& b) {
    const int r = registers_->take(i);
    const Xmm d = vector(r, o.bytes);
    if (!avx512_) return wide ? vcmppd(d, a, b, by) : vcmpps(d, a, b, by);
    const Xbyak::Opmask mask = registers_->in_mask(i) ? Xbyak::Opmask(r) : k1;
    wide ? vcmppd(mask, a, b, by) : vcmpps(mask, a, b, by);
    if (registers_->in_mask(i)) return;
    wide ? vpmovm2q(d, mask) : vpmovm2d(d, mask);
  });
}

void Assembler::emit_select(uint32_t i) {
  const Operation& o = program_.operations[i];
  const bool wide = o.bytes == 8, in_mask = registers_->in_mask(o.operands[0]);
  const Xbyak::Opmask k = in_mask ? Xbyak::Opmask(registers_->of(o.operands[0])) : k1;
  const Xmm mask = in_mask ? Xmm() : reg(o.operands[0], o.bytes, 0), b = reg(o.operands[2], o.bytes, 1);
  with(o.operands[1], o.bytes, [&](const Operand& a) {
    const Xmm d = vector(registers_->take(i), o.bytes);
    if (!avx512_) return wide ? vblendvpd(d, b, a, mask) : vblendvps(d, b, a, mask);
    if (!in_mask) wide ? vpmovq2m(k, mask) : vpmovd2m(k, mask);
    wide ? vblendmpd(d | k, b, a) : vblendmps(d | k, b, a);
  });
}

void Assembler::emit_resized(uint32_t i) {
  const Operation& o = program_.operations[i];
  const Xmm a = reg(o.operands[0], 12 - o.bytes, 0);
  const Xmm d = vector(registers_->take(i), o.bytes);
  switch (o.op) {
    case Op::widen:
      return vcvtps2pd(d, a);
    case Op::narrow:
      return vcvtpd2ps(d, a);
    case Op::widen_mask:
      return vpmovsxdq(d, a);
    default:
      break;
  }
  if (avx512_) return vpmovqd(d, a);
  vextractf128(Xmm(temporary(0)), Xbyak::Ymm(a.getIdx()), 1);
  vshufps(d, low(a), Xmm(temporary(0)), 0x88);
}

}  // namespace tenon::cpu::jit
