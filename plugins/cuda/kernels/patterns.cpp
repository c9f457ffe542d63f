// SPDX-License-Identifier: Apache-2.0
// patterns.cpp: the rows. A step is written as the ops it may be and the operands it reads.
#include "patterns.hpp"

#include <tenon/fragment.h>

#include <iterator>

namespace tenon::cuda {

namespace {

// Free inputs of a pattern.
constexpr uint32_t in0 = TN_PATTERN_INPUT, in1 = TN_PATTERN_INPUT + 1, in2 = TN_PATTERN_INPUT + 2,
                   in3 = TN_PATTERN_INPUT + 3;
// A step that may be missing, and one whose value others may want as well.
constexpr uint32_t maybe = TN_PATTERN_OPTIONAL, kept = TN_PATTERN_OUTPUT;

constexpr uint32_t matmul[] = {TN_OP_matmul}, add[] = {TN_OP_add}, gelu[] = {TN_OP_gelu},
                   gelu_grad[] = {TN_OP_gelu_grad}, sum[] = {TN_OP_sum}, conv[] = {TN_OP_conv2d};
constexpr uint32_t relu_or_gelu[] = {TN_OP_relu, TN_OP_gelu};
constexpr uint32_t activation[] = {TN_OP_relu, TN_OP_gelu, TN_OP_sigmoid, TN_OP_tanh, TN_OP_silu};
constexpr uint32_t activation_grad[] = {TN_OP_relu_grad, TN_OP_gelu_grad, TN_OP_sigmoid_grad, TN_OP_tanh_grad,
                                        TN_OP_silu_grad};
constexpr uint32_t batch_norm[] = {TN_OP_batch_norm_train, TN_OP_batch_norm_infer, TN_OP_batch_norm_apply};
constexpr uint32_t relu_grad[] = {TN_OP_relu_grad}, batch_norm_apply[] = {TN_OP_batch_norm_apply};
constexpr uint32_t batch_norm_back[] = {TN_OP_batch_norm_grad, TN_OP_batch_norm_grad_apply};
constexpr uint32_t row_norm[] = {TN_OP_layer_norm, TN_OP_rms_norm};
constexpr uint32_t row_norm_back[] = {TN_OP_layer_norm_grad, TN_OP_rms_norm_grad};

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
    step<in0>(batch_norm, kept),
    step<0>(activation),
};
constexpr tn_pattern_step bn_add_act[] = {
    step<in0>(batch_norm, kept),
    step<0, in1>(add, kept),
    step<1>(activation),
};
constexpr tn_pattern_step act_bn_backward[] = {
    step<in0, in1>(activation_grad, kept),
    step<0>(batch_norm_back),
};

// What relu was given is made again of x, which is read anyway: bit for bit what was given, and y is not read. The name is a form
// of bn_act, with whose option it goes.
constexpr tn_pattern_step bn_act_backward[] = {
    step<in0>(batch_norm_apply),
    step<in1, 0>(relu_grad, kept),
    step<1, in0>(batch_norm_back),
};

// The sum that goes on beside a normalisation is wanted later, and so is the gradient that went round it. A dropout before it stays
// outside: each pass over the row would draw anew.
constexpr tn_pattern_step add_norm[] = {
    step<in0, in1>(add, kept),
    step<0>(row_norm),
};
constexpr tn_pattern_step norm_backward_add[] = {
    step<in0>(row_norm_back, kept),
    step<0, in1>(add, kept),
};

// Its forms begin with its name, by which hosts switch all of them.
constexpr tn_pattern_step gemm_epilogue[] = {
    step<in0, in1>(matmul),
    step<0, in2>(add, maybe),  // bias
    step<1, in3>(add, maybe),  // residual
    step<2>(relu_or_gelu, maybe),
};
// Where gelu's input is wanted for its gradient.
constexpr tn_pattern_step gemm_epilogue_gelu_kept[] = {
    step<in0, in1>(matmul, kept),
    step<0>(gelu),
};
constexpr tn_pattern_step gemm_epilogue_bias_gelu_kept[] = {
    step<in0, in1>(matmul),
    step<0, in2>(add, kept),
    step<1>(gelu),
};
// The way back through gelu, and what it adds to the bias before it.
constexpr tn_pattern_step gemm_epilogue_backward[] = {
    step<in0, in1>(matmul),
    step<0, in2>(gelu_grad, kept),
    step<1>(sum, maybe),
};

constexpr tn_pattern_step conv_bias_act[] = {
    step<in0, in1>(conv),
    step<0, in2>(add, maybe),  // bias
    step<1, in3>(add, maybe),  // residual
    step<2>(activation, maybe),
};

template <size_t count>
constexpr tn_pattern row(const char* name, const tn_pattern_step (&steps)[count]) {
  return {.name = name, .steps = steps, .step_count = count, .reserved = 0};
}

// Those of products first, those of convolutions last: without a library for either, the others still stand in one row.
constexpr tn_pattern pattern_rows[] = {
    row("gemm_epilogue", gemm_epilogue),
    row("gemm_epilogue_gelu_kept", gemm_epilogue_gelu_kept),
    row("gemm_epilogue_bias_gelu_kept", gemm_epilogue_bias_gelu_kept),
    row("gemm_epilogue_backward", gemm_epilogue_backward),
    row("bn_act", bn_act),
    row("bn_add_act", bn_add_act),
    row("act_bn_backward", act_bn_backward),
    row("bn_act_backward", bn_act_backward),
    row("add_norm", add_norm),
    row("norm_backward_add", norm_backward_add),
    row("conv_bias_act", conv_bias_act),
};
constexpr uint64_t of_products = 4, of_our_own = 6, of_convolutions = 1;
static_assert(std::size(pattern_rows) == of_products + of_our_own + of_convolutions);

}  // namespace

tn_pattern_list published_patterns(bool products, bool convolutions) noexcept {
  return {.items = pattern_rows + (products ? 0 : of_products),
          .count = (products ? of_products : 0) + of_our_own + (convolutions ? of_convolutions : 0)};
}

}  // namespace tenon::cuda
