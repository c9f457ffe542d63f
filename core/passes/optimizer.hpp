// SPDX-License-Identifier: Apache-2.0
// optimizer.hpp: where the operands of an optimizer node are: w, g, states…, lr, [step], [master, found_inf, inv_scale] gives
// w, states…, master, and sgd its unscaled g last.
#pragma once

#include <tenon/types.hpp>

#include <cstddef>

namespace tenon::passes {

struct OptimizerSlots {
  size_t states = 0;         // from input 2 and output 1 on
  size_t master_input = 0;   // optional
  size_t master_output = 0;  // there when the input is
};

// Of an op of the optimizer family. [any-thread; does not block; cannot fail]
constexpr OptimizerSlots optimizer_slots(Op op) noexcept {
  const size_t states = op == Op::sgd ? 0 : op == Op::momentum ? 1 : 2;
  const size_t step = states == 2 ? 1 : 0;
  return {.states = states, .master_input = 3 + states + step, .master_output = 1 + states};
}

}  // namespace tenon::passes
