// SPDX-License-Identifier: Apache-2.0
// optimizer_loops.hpp: the arithmetic of sgd, momentum, adam and adamw over a run of elements.
//
// Invariant: element i of every result depends on element i of the operands alone, and is written after they are read: any
// result may stand in the place of any operand.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// A run of elements, in the type computed in. What an op does not have is null.
template <class T>
struct UpdateRow {
  const T *weight = nullptr, *gradient = nullptr, *state[2] = {};
  T *next = nullptr, *next_state[2] = {},
    *next_gradient = nullptr;  // next_gradient: sgd's, and only where asked for
  uint64_t count = 0;
};

// The figures of one step. With g = gradient·unscale + decay·weight:
//   sgd       next = weight − rate·g
//   momentum  s = keep[0]·s + g;  next = weight − rate·s, or by Nesterov weight − rate·(g + keep[0]·s)
//   adam      s₀ = keep[0]·s₀ + take[0]·g;  s₁ = keep[1]·s₁ + take[1]·g²
//             next = shrink·weight − rate·s₀ / (√s₁·root + epsilon)
template <class T>
struct UpdateFigures {
  T unscale = 1, decay = 0, rate = 0, keep[2] = {}, take[2] = {}, shrink = 1, root = 1, epsilon = 0;
};

template <class T>
using UpdateLoop = void (*)(const UpdateRow<T>& row, const UpdateFigures<T>& figures);

// The loop of an op of family OPTIMIZER, for f32 or f64. `nesterov` is momentum's, `gives_gradient` says whether sgd's
// next_gradient is there. [any-thread; does not block; cannot fail]
template <class T>
UpdateLoop<T> update_loop(uint32_t op, bool nesterov, bool gives_gradient) noexcept;

}  // namespace tenon::cpu
