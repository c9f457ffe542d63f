// SPDX-License-Identifier: Apache-2.0
// transfers.cpp: from memory to registers and back: halves and bools widened on the way in and narrowed on the way out.
//
// Invariant: a transfer touches the lanes' own bytes and no more.
#include "assembler.hpp"

#include <tenon/fragment.h>

namespace tenon::cpu::jit {
namespace {

// Operands are asked for so far ahead where arithmetic hides the way from memory.
constexpr int fetch_ahead = 2048;

}  // namespace

void Assembler::emit_load(uint32_t i, int k) {
  const Operation& o = program_.operations[i];
  const Memory& memory = program_.memory[o.imm];
  const Xmm d = vector(registers_->take(i), o.bytes), spare = vector(temporary(0), 4);
  const Xbyak::RegExp at = place(o.imm, k);
  if (memory.ahead != 0)
    prefetcht0(ptr[at + memory.ahead]);
  else if (!memory.uniform && !memory.near && program_.operations.size() >= heavy_from)
    prefetcht0(ptr[at + fetch_ahead]);
  switch (memory.dtype) {
    case TN_DTYPE_f32:
      return memory.uniform ? vbroadcastss(d, ptr[at]) : vmovups(d, ptr[at]);
    case TN_DTYPE_f64:
      return memory.uniform ? bring_double(d, ptr[at]) : vmovupd(d, ptr[at]);
    case TN_DTYPE_f16:
      return vcvtph2ps(d, ptr[at]);
    case TN_DTYPE_bf16:
      vpmovzxwd(d, ptr[at]);
      return vpslld(d, d, 16);
    case TN_DTYPE_i32:
      return vmovups(d, ptr[at]);
    case TN_DTYPE_i16:
      return vpmovsxwd(d, ptr[at]);
    case TN_DTYPE_u16:
      return vpmovzxwd(d, ptr[at]);
    case TN_DTYPE_i8:
      return vpmovsxbd(d, ptr[at]);
    case TN_DTYPE_u8:
      return vpmovzxbd(d, ptr[at]);
    default:
      break;
  }
  if (memory.uniform) {
    vpbroadcastb(low(spare), ptr[at]);
    vpmovzxbd(d, low(spare));
  } else {
    vpmovzxbd(d, ptr[at]);
  }
  vxorps(spare, spare, spare);
  vpsubd(d, spare, d);
}

void Assembler::emit_store(uint32_t i, int k) {
  const Operation& o = program_.operations[i];
  const Memory& memory = program_.memory[o.imm];
  const Xmm a = reg(o.operands[0], o.bytes, 0);
  const Xbyak::RegExp at = place(o.imm, k);
  switch (memory.dtype) {
    case TN_DTYPE_f32:
    case TN_DTYPE_f64:
      return put(at, a, memory);
    case TN_DTYPE_f16:
      vcvtps2ph(half(vector(temporary(0), 4)), a, 0);
      return put_part(at, temporary(0), 2, memory);
    case TN_DTYPE_bf16:
      vpsrld(vector(temporary(0), 4), a, 16);
      pack_words();
      return put_part(at, temporary(0), 2, memory);
    default:
      vpsrld(vector(temporary(0), 4), a, 31);
      pack_bytes();
      return put_part(at, temporary(0), 1, memory);
  }
}

void Assembler::put(const Xbyak::RegExp& at, const Xmm& x, const Memory& memory) {
  if (past_cache_ && memory.past_cache)
    vmovntps(ptr[at], x);
  else
    vmovups(ptr[at], x);
}

void Assembler::put_part(const Xbyak::RegExp& at, int r, int bytes, const Memory& memory) {
  switch (static_cast<int>(lanes()) * bytes) {
    case 32:
      return put(at, Xbyak::Ymm(r), memory);
    case 16:
      return put(at, Xmm(r), memory);
    case 8:
      return vmovq(ptr[at], Xmm(r));
    default:
      return vmovd(ptr[at], Xmm(r));
  }
}

void Assembler::pack_words() {
  const int t = temporary(0);
  if (avx512_) return vpmovdw(half(vector(t, 4)), vector(t, 4));
  if (lanes() == 8) vextracti128(Xmm(temporary(1)), Xbyak::Ymm(t), 1);
  vpackusdw(Xmm(t), Xmm(t), Xmm(lanes() == 8 ? temporary(1) : t));
}

void Assembler::pack_bytes() {
  const int t = temporary(0);
  if (avx512_) return vpmovdb(Xmm(t), vector(t, 4));
  pack_words();
  vpackuswb(Xmm(t), Xmm(t), Xmm(t));
}

}  // namespace tenon::cpu::jit
