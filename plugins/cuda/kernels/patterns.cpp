// SPDX-License-Identifier: Apache-2.0
// patterns.cpp: the rows. A step is written as the ops it may be and the operands it reads.
#include "patterns.hpp"

#include <tenon/fragment.h>

#include <iterator>

namespace tenon::cuda {

namespace {

// Free inputs of a pattern.
constexpr uint32_t in0 = TN_PATTERN_INPUT, in1 = TN_PATTERN_INPUT + 1;
// A step whose value others may want as well.
constexpr uint32_t wanted = TN_PATTERN_OUTPUT;

constexpr uint32_t add[] = {TN_OP_add};
constexpr uint32_t activation[] = {TN_OP_relu, TN_OP_gelu, TN_OP_sigmoid, TN_OP_tanh, TN_OP_silu};
constexpr uint32_t activation_grad[] = {TN_OP_relu_grad, TN_OP_gelu_grad, TN_OP_sigmoid_grad, TN_OP_tanh_grad,
                                        TN_OP_silu_grad};
constexpr uint32_t batch_norm[] = {TN_OP_batch_norm_train, TN_OP_batch_norm_infer, TN_OP_batch_norm_apply};
constexpr uint32_t batch_norm_back[] = {TN_OP_batch_norm_grad, TN_OP_batch_norm_grad_apply};

template <uint32_t... operands>
constexpr uint32_t reads[] = {operands...};

template <uint32_t... operands, size_t count>
constexpr tn_pattern_step step(const uint32_t (&ops)[count], uint32_t flags = 0) {
  return {.ops = ops,
          .op_count = count,
          .operand_count = sizeof...(operands),
          .operands = reads<operands...>,
          .flags = flags,
          .reserved = 0};
}

constexpr tn_pattern_step bn_act[] = {
    step<in0>(batch_norm, wanted),
    step<0>(activation),
};
constexpr tn_pattern_step bn_add_act[] = {
    step<in0>(batch_norm, wanted),
    step<0, in1>(add, wanted),
    step<1>(activation),
};
constexpr tn_pattern_step act_bn_backward[] = {
    step<in0, in1>(activation_grad, wanted),
    step<0>(batch_norm_back),
};

template <size_t count>
constexpr tn_pattern row(const char* name, const tn_pattern_step (&steps)[count]) {
  return {.name = name, .steps = steps, .step_count = count, .reserved = 0};
}

constexpr tn_pattern published[] = {
    row("bn_act", bn_act),
    row("bn_add_act", bn_add_act),
    row("act_bn_backward", act_bn_backward),
};

}  // namespace

tn_pattern_list published_patterns() noexcept { return {.items = published, .count = std::size(published)}; }

}  // namespace tenon::cuda
