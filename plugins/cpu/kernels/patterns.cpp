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
                   in3 = TN_PATTERN_INPUT + 3;

constexpr uint32_t matmul[] = {TN_OP_matmul}, conv[] = {TN_OP_conv2d}, add[] = {TN_OP_add};
constexpr uint32_t activation[] = {TN_OP_relu, TN_OP_gelu, TN_OP_sigmoid, TN_OP_tanh, TN_OP_silu};

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

constexpr tn_pattern_step gemm_epilogue[] = {
    step<in0, in1>(matmul),
    step<0, in2>(add, TN_PATTERN_OPTIONAL),  // bias
    step<1, in3>(add, TN_PATTERN_OPTIONAL),  // residual
    step<2>(activation, TN_PATTERN_OPTIONAL),
};
constexpr tn_pattern_step conv_bias_act[] = {
    step<in0, in1>(conv),
    step<0, in2>(add, TN_PATTERN_OPTIONAL),
    step<1, in3>(add, TN_PATTERN_OPTIONAL),
    step<2>(activation, TN_PATTERN_OPTIONAL),
};

template <size_t count>
constexpr tn_pattern row(const char* name, const tn_pattern_step (&steps)[count]) {
  return {.name = name, .steps = steps, .step_count = count, .reserved = 0};
}

constexpr tn_pattern of_onednn[] = {
    row("gemm_epilogue", gemm_epilogue),
    row("conv_bias_act", conv_bias_act),
};

}  // namespace

tn_pattern_list published_patterns() noexcept {
  return has_onednn() ? tn_pattern_list{.items = of_onednn, .count = std::size(of_onednn)}
                      : tn_pattern_list{};
}

}  // namespace tenon::cpu
