// SPDX-License-Identifier: Apache-2.0
// program.hpp: random programs over streams and memories, and a slow, certain judge of them.
//
// Invariant: the judge knows nothing of clocks: it closes the order of all operations over each other, bit by bit, and
// looks at every pair that shares a byte.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace tenon::test {

inline constexpr uint32_t program_streams = 4, program_memories = 3, program_bytes = 512;

struct Use {
  uint32_t memory = 0;
  uint64_t begin = 0, end = 0;
  bool write = false;
};

struct Instruction {
  enum Kind { fill, copy, launch, record, wait, sync, replace } kind = fill;
  uint32_t stream = 0;
  uint32_t other = 0;       // wait: whose value
  uint32_t value = 0;       // record, wait, sync: which one
  std::vector<Use> uses{};  // fill: dst; copy: dst, src; launch: in, in, out
};

struct Program {
  std::vector<Instruction> instructions;
  uint32_t values = 0;
};

// Whether two operations that share a byte, one writing it, are in no order. `without`: an instruction left out.
bool races(const Program& program, std::optional<size_t> without = {});

// A program of about `operations` operations whose waits and syncs suffice.
Program make_program(std::mt19937_64& random, uint32_t operations);

}  // namespace tenon::test
