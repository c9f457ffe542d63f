// SPDX-License-Identifier: Apache-2.0
// patterns.cpp: the rows. A step is written as the ops it may be and the operands it reads.
#include "patterns.hpp"

#include "gemm.hpp"

#include <tenon/fragment.h>

#include <iterator>

namespace tenon::cpu {

namespace {

// Free inputs of a pattern.
constexpr uint32_t in0 = TN_PATTERN_INPUT, in1 = TN_PATTERN_INPUT + 1, in2 = TN_PATTERN_INPUT + 2,
                   in3 = TN_PATTERN_INPUT + 3, in4 = TN_PATTERN_INPUT + 4, in5 = TN_PATTERN_INPUT + 5;
// A step that may be missing, and one whose value others may want as well.
constexpr uint32_t maybe = TN_PATTERN_OPTIONAL, kept = TN_PATTERN_OUTPUT;

constexpr uint32_t matmul[] = {TN_OP_matmul}, conv[] = {TN_OP_conv2d}, add[] = {TN_OP_add},
                   mul[] = {TN_OP_mul};
constexpr uint32_t dropout[] = {TN_OP_dropout}, sum[] = {TN_OP_sum};
constexpr uint32_t relu[] = {TN_OP_relu}, relu_grad[] = {TN_OP_relu_grad},
                   conv_grad_data[] = {TN_OP_conv2d_grad_data};
constexpr uint32_t activation[] = {TN_OP_relu, TN_OP_gelu, TN_OP_sigmoid, TN_OP_tanh, TN_OP_silu},
                   conv_activation[] = {TN_OP_relu, TN_OP_gelu, TN_OP_tanh, TN_OP_silu};  // see epilogue.cpp

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

// What is kept of these is written while it is in cache: an activation's input, for its gradient.
constexpr tn_pattern_step gemm_epilogue[] = {
    step<in0, in1>(matmul, kept),
    step<0, in2>(add, maybe | kept),  // bias
    step<1, in3>(add, maybe | kept),  // residual
    step<2>(activation, maybe),
};
constexpr tn_pattern_step conv_bias_act[] = {
    step<in0, in1>(conv),
    step<0, in2>(add, maybe),
    step<1, in3>(add, maybe),
    step<2>(conv_activation, maybe),
};

// Statistics of a normalisation, and the sum that goes on beside it, are wanted later.
constexpr uint32_t batch_norm[] = {TN_OP_batch_norm_train, TN_OP_batch_norm_infer, TN_OP_batch_norm_apply};
constexpr uint32_t batch_norm_back[] = {TN_OP_batch_norm_grad, TN_OP_batch_norm_grad_apply};
constexpr uint32_t batch_norm_apply[] = {TN_OP_batch_norm_apply};
constexpr uint32_t row_norm[] = {TN_OP_layer_norm, TN_OP_rms_norm};
constexpr uint32_t row_norm_back[] = {TN_OP_layer_norm_grad, TN_OP_rms_norm_grad};
constexpr uint32_t activation_grad[] = {TN_OP_relu_grad, TN_OP_gelu_grad, TN_OP_sigmoid_grad, TN_OP_tanh_grad,
                                        TN_OP_silu_grad};
constexpr tn_pattern_step bn_act[] = {
    step<in0>(batch_norm, kept),
    step<0>(activation),
};
constexpr tn_pattern_step bn_add_act[] = {
    step<in0>(batch_norm, kept),
    step<0, in1>(add),
    step<1>(activation),
};
constexpr tn_pattern_step act_bn_backward[] = {
    step<in0, in1>(add, maybe),  // gradients that join, where the way forward had forked
    step<0, in2>(activation_grad, kept),
    step<1>(batch_norm_back),
};
// What relu was given is made again of x, bit for bit, and y is not read (ADR 0043).
constexpr tn_pattern_step bn_act_backward[] = {
    step<in0>(batch_norm_apply),
    step<in1, in2>(add, maybe),
    step<1, 0>(relu_grad),
    step<2, in0>(batch_norm_back),
};
constexpr tn_pattern_step add_norm[] = {
    step<in0, in1>(add, kept),
    step<0>(row_norm),
};
constexpr tn_pattern_step norm_backward_add[] = {
    step<in0>(row_norm_back, kept),
    step<0, in1>(add, kept),  // the gradient that went round the normalisation
};

// A layer whose output is thinned, then added to what went round it, then normalised; each may be wanted for the way back.
constexpr tn_pattern_step dropout_add_norm[] = {
    step<in0, in1, in2>(dropout, kept),
    step<0, in3>(add, maybe | kept),
    step<1>(row_norm),
};
constexpr tn_pattern_step gemm_norm[] = {
    step<in0, in1>(matmul, kept),
    step<0, in2>(add, maybe | kept),  // bias
    step<1, in3>(add, maybe | kept),  // residual
    step<2>(row_norm),
};
constexpr tn_pattern_step gemm_dropout[] = {
    step<in0, in1>(matmul, kept),      step<0, in2>(add, maybe | kept),  // bias
    step<1>(activation, maybe | kept), step<2, in3, in4>(dropout, kept),
    step<3, in5>(add, maybe | kept),  // residual
    step<4>(row_norm, maybe),
};
// The way back: the product of the layer above, thinned as its operand was, through the activation, and summed for the bias.
constexpr tn_pattern_step gemm_epilogue_backward[] = {
    step<in0, in1>(matmul, maybe | kept),
    step<0, in2, in3>(dropout, maybe | kept),
    step<1, in4>(activation_grad, kept),
    step<2>(sum, maybe),
};

// Rows to shares and losses: scores that are scaled, masked or of another type before, and what is made of the shares behind.
constexpr uint32_t changing[] = {TN_OP_scale, TN_OP_cast},
                   mixing[] = {TN_OP_add, TN_OP_sub, TN_OP_mul, TN_OP_div};
constexpr uint32_t shares[] = {TN_OP_softmax, TN_OP_log_softmax}, shares_back[] = {TN_OP_softmax_grad};
constexpr uint32_t loss[] = {TN_OP_cross_entropy}, loss_back[] = {TN_OP_cross_entropy_grad};
constexpr uint32_t row_users[] = {TN_OP_softmax, TN_OP_log_softmax, TN_OP_cross_entropy};
constexpr uint32_t leaving[] = {TN_OP_dropout, TN_OP_scale, TN_OP_cast};
constexpr tn_pattern_step softmax_row[] = {
    step<in0>(changing, maybe | kept), step<0, in1>(mixing, maybe | kept), step<1>(shares, kept),
    step<2, in2>(mul, maybe | kept),   step<3>(leaving, maybe | kept),
};
constexpr tn_pattern_step softmax_row_backward[] = {
    step<in0>(leaving, maybe | kept), step<0, in1>(mul, maybe | kept), step<1>(shares_back, kept),
    step<2, in2>(mul, maybe | kept),  step<3>(changing, maybe | kept),
};
constexpr tn_pattern_step loss_row[] = {
    step<in0>(changing, maybe | kept),
    step<0, in1>(mixing, maybe | kept),
    step<1>(loss),
};
constexpr tn_pattern_step loss_row_backward[] = {
    step<in0>(changing, maybe | kept),
    step<0, in1>(mixing, maybe | kept),
    step<1>(loss_back, kept),
    step<2>(changing, maybe | kept),
};
constexpr tn_pattern_step gemm_softmax[] = {
    step<in0, in1>(matmul, kept),
    step<0, in2>(add, maybe | kept),  // bias
    step<1, in3>(add, maybe | kept),  // mask
    step<2>(row_users, kept),
};

constexpr tn_pattern_step relu_depthwise_conv[] = {
    step<in0>(relu, kept),
    step<0, in1>(conv),
};
constexpr tn_pattern_step relu_depthwise_conv_backward[] = {
    step<in0, in1>(conv_grad_data),
    step<0, in2>(relu_grad),
};

template <size_t count>
constexpr tn_pattern row(const char* name, const tn_pattern_step (&steps)[count]) {
  return {.name = name, .steps = steps, .step_count = count, .reserved = 0};
}

// Those of oneDNN last: a build without it publishes the others.
constexpr tn_pattern rows[] = {
    row("bn_act", bn_act),
    row("bn_add_act", bn_add_act),
    row("act_bn_backward", act_bn_backward),
    row("bn_act_backward", bn_act_backward),
    row("add_norm", add_norm),
    row("norm_backward_add", norm_backward_add),
    row("dropout_add_norm", dropout_add_norm),
    row("softmax_row", softmax_row),
    row("softmax_row_backward", softmax_row_backward),
    row("loss_row", loss_row),
    row("loss_row_backward", loss_row_backward),
    row("relu_depthwise_conv", relu_depthwise_conv),
    row("relu_depthwise_conv_backward", relu_depthwise_conv_backward),
    row("gemm_epilogue_backward", gemm_epilogue_backward),
    row("gemm_epilogue", gemm_epilogue),
    row("gemm_norm", gemm_norm),
    row("gemm_dropout", gemm_dropout),
    row("gemm_softmax", gemm_softmax),
    row("conv_bias_act", conv_bias_act),
};
constexpr uint64_t by_onednn = 5;

}  // namespace

tn_pattern_list published_patterns() noexcept {
  return {.items = rows, .count = std::size(rows) - (has_onednn() ? 0 : by_onednn)};
}

}  // namespace tenon::cpu
