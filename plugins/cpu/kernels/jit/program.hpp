// SPDX-License-Identifier: Apache-2.0
// program.hpp: a straight line of operations on vectors, before registers and instructions.
//
// Every value is as many lanes as the loop has, of 4 or 8 bytes each: numbers, their bits, or masks (all ones or zeros).
// Invariant: an operation names earlier ones only; the same operation on the same operands is there once.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace tenon::cpu::jit {

enum class Op : uint8_t {
  constant,  // of `bits`
  load,      // from memory[imm]
  store,     // a, to memory[imm]
  add,
  sub,
  mul,
  div,
  fma,      // a·b + c
  lesser,   // a < b ? a : b
  greater,  // a > b ? a : b
  sqrt,
  floor,
  bit_and,
  bit_or,
  bit_xor,
  word_add,
  word_sub,
  shl,  // by imm
  shr,
  sar,         // of 4 bytes alone
  compare,     // a with b, by Comparison imm
  select,      // mask a ? b : c
  widen,       // f32 to f64
  narrow,      // f64 to f32
  from_whole,  // a whole number of 4 bytes to f32 or f64
  widen_mask,  // 4 bytes to 8
  narrow_mask,
  round_f16,  // an f32 to what f16 holds
};

enum class Comparison : uint8_t { equal, not_equal, less, less_equal };

inline constexpr uint32_t none = UINT32_MAX;

struct Operation {
  Op op;
  uint8_t bytes;     // of a lane of the result; of a comparison and a store, of its operands
  uint32_t imm = 0;  // a shift, a Comparison, a memory
  uint32_t operands[3] = {none, none, none};
  uint64_t bits = 0;  // of a constant
};

// What a pointer of the code leads to: elements in a row, or one for all lanes.
struct Memory {
  uint32_t dtype;
  bool uniform = false;
  bool written = false;
  bool past_cache = false;  // too large to stay in a cache
  bool near = false;        // in a cache already
  uint32_t ahead = 0;       // bytes from each element to one that is asked for meanwhile; 0: none is
};

class Program {
 public:
  // The value of the operation.
  uint32_t add(const Operation& o) {
    const auto next = static_cast<uint32_t>(operations.size());
    if (o.op != Op::load && o.op != Op::store) {
      const auto [at, fresh] = known_.try_emplace(
          {o.op, o.bytes, o.imm, o.operands[0], o.operands[1], o.operands[2], o.bits}, next);
      if (!fresh) return at->second;
    }
    operations.push_back(o);
    return next;
  }
  uint32_t add(const Memory& one) {
    memory.push_back(one);
    return static_cast<uint32_t>(memory.size() - 1);
  }

  std::vector<Operation> operations;
  std::vector<Memory> memory;

 private:
  std::map<std::tuple<Op, uint8_t, uint32_t, uint32_t, uint32_t, uint32_t, uint64_t>, uint32_t> known_;
};

}  // namespace tenon::cpu::jit
