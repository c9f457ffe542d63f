// SPDX-License-Identifier: Apache-2.0
// op_update.hpp: optimizers and loss scaling: which operand is what, and which input each output renews.
//
// Invariant: an output has the dims and the dtype of the input it renews, and may be written in its place.
#pragma once

#include <tenon/author/node_view.hpp>

namespace tenon::author {

// An optimizer's inputs: w, g, `states` of them, the rate, adam's step, then [master, found_inf, inv_scale].
struct OptimizerForm {
  uint32_t states;
  bool stepped;

  constexpr uint32_t rate() const noexcept { return 2 + states; }
  constexpr uint32_t step() const noexcept { return rate() + 1; }  // when stepped
  constexpr uint32_t master() const noexcept { return rate() + (stepped ? 2 : 1); }
  constexpr uint32_t found_inf() const noexcept { return master() + 1; }
  constexpr uint32_t inv_scale() const noexcept { return master() + 2; }
};

// The form of an op of family OPTIMIZER. [any-thread; does not block; cannot fail]
constexpr OptimizerForm optimizer_form(uint32_t op) noexcept {
  switch (op) {
    case TN_OP_sgd:
      return {.states = 0, .stepped = false};
    case TN_OP_momentum:
      return {.states = 1, .stepped = false};
    default:
      return {.states = 2, .stepped = true};
  }
}

// The input that output `output` of an optimizer or of loss scaling renews, in place where they are paired; TN_ABSENT when
// it renews none. [any-thread; does not block; cannot fail]
constexpr uint32_t renewed_input(uint32_t op, uint32_t output) noexcept {
  if (op == TN_OP_check_finite_and_unscale) return output == 0 ? TN_ABSENT : output;
  if (op == TN_OP_update_loss_scaling) return output + 1;
  if (op_row(op).family != "OPTIMIZER" || output >= op_row(op).outputs) return TN_ABSENT;
  const OptimizerForm form = optimizer_form(op);
  if (output == 0) return 0;
  if (output <= form.states) return 1 + output;
  return output == form.states + 1 ? form.master() : 1;  // sgd gives its gradient last
}

namespace detail {

inline bool are_optimizer_dtypes(const NodeView& node) {
  const OptimizerForm form = optimizer_form(node.op());
  const uint32_t weight = node.in(0).dtype();
  const bool half = weight == TN_DTYPE_f16 || weight == TN_DTYPE_bf16;
  for (uint32_t i = 0; i < node.inputs(); ++i) {
    if (!node.has(i)) continue;
    const uint32_t dtype = node.in(i).dtype();
    const bool state = (i >= 2 && i < form.rate()) || i == form.master();
    const bool good = i < 2 || (state && !half) ? is_float(dtype) : dtype == TN_DTYPE_f32;
    if (!good) return false;
  }
  return true;
}

inline bool are_update_dtypes(const NodeView& node) {
  const uint32_t op = node.op();
  if (op_row(op).family == "OPTIMIZER") {
    if (!are_optimizer_dtypes(node)) return false;
  } else {
    for (uint32_t i = 0; i < node.inputs(); ++i) {
      const bool gradient = op == TN_OP_check_finite_and_unscale && i > 0;
      if (gradient ? !is_float(node.in(i).dtype()) : node.in(i).dtype() != TN_DTYPE_f32) return false;
    }
  }
  for (uint32_t i = 0; i < node.outputs(); ++i) {
    if (!node.gives(i)) continue;
    const uint32_t from = renewed_input(op, i);
    const uint32_t dtype = node.has(from) ? node.in(from).dtype() : uint32_t{TN_DTYPE_f32};
    if (node.out(i).dtype() != dtype) return false;
  }
  return true;
}

}  // namespace detail

}  // namespace tenon::author
