// SPDX-License-Identifier: Apache-2.0
// leave.hpp: what the host lets NVIDIA's libraries compute otherwise than ops.def says, and how `supports` tells it.
//
// Options: `cuda.tf32`, 1 to let products and convolutions of f32 be computed in TF32; `cuda.lossy_relu`, 1 to let them compute a relu
// behind them, which makes NaN a 0, and so hides where a training went wrong.
// Invariant: what is not asked for is not taken.
#pragma once

#include <tenon/author/host.hpp>
#include <tenon/author/node_view.hpp>

#include <algorithm>

namespace tenon::cuda {

struct Leave {
  bool tf32 = false, lossy_relu = false;

  // TN_INVALID names key, value and what it may be. [any-thread; does not block; may fail]
  static Result<Leave> of(const author::Host& host) {
    const int64_t tf32 = TN_TRY(host.integer("tf32", 0, 0, 1))
    , relu = TN_TRY(host.integer("lossy_relu", 0, 0, 1));
    return Leave{.tf32 = tf32 != 0, .lossy_relu = relu != 0};
  }

  // TN_UNSUPPORTED for a relu that no leave was given for. [any-thread; does not block; may fail]
  Status check_relu(const author::FragmentView& fragment, bool has_relu, const char* library) const {
    if (!has_relu || lossy_relu) return {};
    const auto nodes = fragment.nodes();
    const auto relu = std::ranges::find_if(nodes, [](const tn_node& node) { return node.op == TN_OP_relu; });
    return author::NodeView(fragment, static_cast<uint32_t>(relu - nodes.begin()))
        .unsupported(author::text(library,
                                  "'s relu makes NaN a 0: compile it apart, or allow that by the option "
                                  "cuda.lossy_relu = 1"));
  }

  // TN_UNSUPPORTED for gelu or its gradient behind a product of f32: the library's tanh is off by some 5e-6, which TF32 hides and
  // f32 does not. [any-thread; does not block; may fail]
  Status check_gelu(const author::FragmentView& fragment, uint32_t dtype, bool has_gelu) const {
    if (!has_gelu || tf32 || dtype != TN_DTYPE_f32) return {};
    const auto nodes = fragment.nodes();
    const auto gelu = std::ranges::find_if(
        nodes, [](const tn_node& node) { return node.op == TN_OP_gelu || node.op == TN_OP_gelu_grad; });
    return author::NodeView(fragment, static_cast<uint32_t>(gelu - nodes.begin()))
        .unsupported(
            "cuBLASLt's gelu is off by some 5e-6, too far for f32: compile it apart, or allow TF32 by the "
            "option cuda.tf32 = 1");
  }

  // What is told of a computation; nullptr where it is as ops.def says. [any-thread; does not block; cannot fail]
  const char* told(uint32_t dtype, bool has_relu) const noexcept {
    const bool rounds = tf32 && dtype == TN_DTYPE_f32;
    if (rounds && has_relu)
      return "computed in TF32, which has 10 bits of mantissa, and relu makes NaN a 0, as the options "
             "cuda.tf32 = 1 and "
             "cuda.lossy_relu = 1 allow";
    if (rounds) return "computed in TF32, which has 10 bits of mantissa, as the option cuda.tf32 = 1 allows";
    return has_relu ? "relu makes NaN a 0, as the option cuda.lossy_relu = 1 allows" : nullptr;
  }
};

}  // namespace tenon::cuda
