// SPDX-License-Identifier: Apache-2.0
// joined.hpp: the chain before a kernel, the kernel's own arithmetic on each element, and the chain after it, as one piece of
// generated code: one pass over memory, values in registers.
//
// Streams of operands then move side by side as the processor fetches them, where chain, loop and chain would take turns at a
// tile of each.
// Invariant: code gives what chain, loop and chain give, bit for bit, where the loop fuses products as the formula does.
#pragma once

#include "chain.hpp"
#include "jit/traced.hpp"

#include <functional>
#include <initializer_list>

namespace tenon::cpu {

// What the arithmetic has beside the chain's results: a number for each element, the same of a row that lies before the next
// one (which is asked for meanwhile), one for all, or one for each that it may change.
enum class Beside : uint8_t { each, row, one, changed };

class Joined {
 public:
  using Number = jit::Traced<float>;
  // What goes on to the chain after the kernel, of an element's results and of what stands beside.
  using Formula = std::function<Number(std::span<const Number> results, std::span<Number> beside)>;

  // None.
  Joined() = default;
  // `stores`: what else `in` makes is stored. `row_bytes`: of Beside::row. None of f64, where a chain has no code, and where
  // the processor or the plugin's option `engine` takes none. [may throw bad_alloc]
  Joined(const Chain& in, bool stores, const Chain* out, std::initializer_list<Beside> beside,
         const Formula& formula, uint64_t row_bytes = 0);

  explicit operator bool() const noexcept { return code_ != nullptr; }
  // Elements [at, at + n); beside[i] leads to the f32 of element `at`, and is written if it changes. Only where there is code.
  // [any-thread; cannot fail]
  void run(const Run& run, uint64_t at, uint64_t n, std::initializer_list<const void*> beside) const noexcept;

 private:
  std::shared_ptr<const Chain::Code> code_;
};

}  // namespace tenon::cpu
