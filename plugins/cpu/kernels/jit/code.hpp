// SPDX-License-Identifier: Apache-2.0
// code.hpp: a program as machine code.
//
// Invariant: the pages of the code are never writable and executable at once, and never change once they are executable.
#pragma once

#include "../isa.hpp"
#include "program.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace tenon::cpu::jit {

inline constexpr uint32_t most_memories = 64;

class Code {
 public:
  virtual ~Code() = default;

  // Elements [0, n) of the memories, each where its pointer says. `past_cache`: results that are marked so are stored past
  // the caches where they are aligned for it. [any-thread; does not block; cannot fail]
  void run(std::byte* const* pointers, uint64_t n, bool past_cache) const noexcept;

  uint32_t lanes() const noexcept { return lanes_; }

 protected:
  using Function = void (*)(std::byte* const* pointers, uint64_t n);

  std::vector<Memory> memory_;
  uint32_t lanes_ = 0;
  Function cached_ = nullptr, uncached_ = nullptr;  // of whole vectors; uncached_ where a memory is marked so

 private:
  bool is_aligned(std::byte* const* pointers) const noexcept;
  void run_rest(std::byte* const* pointers, uint64_t done, uint64_t rest) const noexcept;
};

// The code for an instruction set from AVX2 on, or nullptr with the reason in a few words. [any-thread; may block; may
// throw bad_alloc]
std::unique_ptr<const Code> assemble(const Program& program, Isa isa, std::string& why);

}  // namespace tenon::cpu::jit
