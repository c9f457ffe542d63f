// SPDX-License-Identifier: Apache-2.0
// assembler.cpp: the loop around a program's operations, its constants, and the pages that both are in.
//
// Invariant: a loop runs whole vectors only; code is sealed before anybody can run it.
#include "assembler.hpp"

#include "code.hpp"

#include <xbyak/xbyak_util.h>

#include <algorithm>

namespace tenon::cpu::jit {

Assembler::Assembler(const Program& program, bool avx512, size_t bytes)
    : CodeGenerator(bytes, Xbyak::DontSetProtectRWE),
      program_(program),
      avx512_(avx512),
      vector_bytes_(avx512 ? 64 : 32),
      abreast_(std::max(1, value_registers() / Registers::needed(program))),
      constants_(program.operations.size()) {
  for (const Operation& o : program.operations) widest_ = std::max<int>(widest_, o.bytes);
}

std::pair<const uint8_t*, const uint8_t*> Assembler::assemble() {
  const uint8_t* const cached = emit_function(false);
  const bool any = std::any_of(program_.memory.begin(), program_.memory.end(),
                               [](const Memory& memory) { return memory.past_cache; });
  const uint8_t* const uncached = any ? emit_function(true) : nullptr;
  emit_constants();
  ready();
  setProtectModeRE();
  return {cached, uncached};
}

const uint8_t* Assembler::emit_function(bool past_cache) {
  past_cache_ = past_cache;
  align(64);
  const uint8_t* const entry = getCurr();
  for (const Reg64& r : kept()) push(r);
  for (size_t i = 0; i < std::min(fixed().size(), program_.memory.size()); ++i)
    mov(fixed()[i], ptr[rdi + 8 * i]);
  xor_(eax, eax);
  const int copies = program_.operations.size() < heavy_from ? most_copies : std::min(abreast_, most_copies);
  Xbyak::Label single, next, end;
  if (copies > 1) emit_loop(copies, single);
  L(single);
  test(rsi, rsi);
  jz(end, T_NEAR);
  L(next);
  emit_bodies(0, 1);
  add(rax, lanes());
  sub(rsi, lanes());
  jnz(next, T_NEAR);
  L(end);
  vzeroupper();
  const auto saved = kept();
  for (size_t i = saved.size(); i-- > 0;) pop(saved[i]);
  ret();
  return entry;
}

void Assembler::emit_loop(int copies, Xbyak::Label& rest) {
  const uint32_t step = lanes() * static_cast<uint32_t>(copies);
  Xbyak::Label next;
  cmp(rsi, step);
  jb(rest, T_NEAR);
  L(next);
  if (copies <= abreast_) {
    emit_bodies(0, copies);
  } else {
    for (int k = 0; k < copies; ++k) emit_bodies(k, k + 1);
  }
  add(rax, step);
  sub(rsi, step);
  cmp(rsi, step);
  jae(next, T_NEAR);
}

void Assembler::emit_bodies(int from, int to) {
  const int ways = to - from, vectors = value_registers() / ways, masks = mask_registers() / ways;
  std::vector<Registers> files;
  for (int k = 0; k < ways; ++k)
    files.emplace_back(program_, k * vectors, vectors, first_mask + k * masks, masks);
  for (uint32_t i = 0; i < program_.operations.size(); ++i) {
    for (int k = 0; k < ways; ++k) {
      registers_ = &files[static_cast<size_t>(k)];
      emit(i, from + k);
    }
  }
}

Xbyak::RegExp Assembler::place(uint32_t memory, int k) {
  const auto fixed_ones = fixed();
  Reg64 base = r15;
  if (memory < fixed_ones.size())
    base = fixed_ones[memory];
  else
    mov(r15, ptr[rdi + 8 * memory]);
  if (program_.memory[memory].uniform) return base;
  const int bytes = element_bytes(memory);
  return base + rax * bytes + static_cast<size_t>(k * static_cast<int>(lanes()) * bytes);
}

void Assembler::bring_constant(const Xmm& x, uint32_t value, int bytes) {
  if (!avx512_)
    vmovups(x, ptr[rip + label(value)]);
  else if (bytes == 4)
    vbroadcastss(x, ptr[rip + label(value)]);
  else
    bring_double(x, ptr[rip + label(value)]);
}

void Assembler::bring_double(const Xmm& x, const Xbyak::Address& from) {
  x.isZMM() ? vbroadcastsd(Xbyak::Zmm(x.getIdx()), from) : vbroadcastsd(Xbyak::Ymm(x.getIdx()), from);
}

void Assembler::emit_constants() {
  align(64);
  for (uint32_t i = 0; i < constants_.size(); ++i) {
    if (!constants_[i].used) continue;
    L(constants_[i].label);
    const Operation& o = program_.operations[i];
    const int copies = avx512_ ? 1 : vector_bytes_ / o.bytes;
    for (int k = 0; k < copies; ++k) {
      if (o.bytes == 8)
        dq(o.bits);
      else
        dd(static_cast<uint32_t>(o.bits));
    }
  }
}

namespace {

constexpr int page = 4096;

class Assembled final : public Code {
 public:
  Assembled(const Program& program, bool avx512, size_t bytes) : assembler_(program, avx512, bytes) {
    const auto [cached, uncached] = assembler_.assemble();
    cached_ = reinterpret_cast<Function>(reinterpret_cast<uintptr_t>(cached));
    uncached_ = reinterpret_cast<Function>(reinterpret_cast<uintptr_t>(uncached));
    lanes_ = assembler_.lanes();
    memory_ = program.memory;
  }

 private:
  Assembler assembler_;
};

// Room for the longest instructions of every copy of the body.
size_t room_for(const Program& program) {
  constexpr size_t longest = 48;
  constexpr size_t copies = 2 * (most_copies + 1);  // past the caches, too
  const size_t bytes = 2048 + longest * copies * program.operations.size() + 64 * program.operations.size();
  return (bytes + page - 1) / page * page;
}

bool has_f16c() {
  static const bool has = Xbyak::util::Cpu().has(Xbyak::util::Cpu::tF16C);
  return has;
}

}  // namespace

std::unique_ptr<const Code> assemble(const Program& program, Isa isa, std::string& why) {
  if (isa < Isa::avx2 || !has_f16c()) {
    why = "no AVX2 or F16C";
  } else if (program.memory.size() > most_memories) {
    why = "too many operands";
  } else {
    try {
      return std::make_unique<Assembled>(program, isa == Isa::avx512, room_for(program));
    } catch (const std::length_error& trouble) {
      why = trouble.what();
    } catch (const Xbyak::Error& trouble) {
      why = trouble.what();
    }
  }
  return nullptr;
}

}  // namespace tenon::cpu::jit
