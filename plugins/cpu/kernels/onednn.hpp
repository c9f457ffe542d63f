// SPDX-License-Identifier: Apache-2.0
// onednn.hpp: the one place that knows which oneDNN this is: 2.6 and 3.x behind one spelling.
//
// Invariant: no other file tests DNNL_VERSION_MAJOR.
#pragma once

#include <tenon/fragment.h>

#include <oneapi/dnnl/dnnl.hpp>

namespace tenon::cpu::onednn {

using dnnl::memory;

// The process's CPU engine; made at the first compile, never destroyed. [any-thread; may throw dnnl::error]
inline const dnnl::engine& engine() {
  static const auto& shared = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return shared;
}

// What is computed on a result before it is written.
struct Finish {
  memory::desc bias{};              // empty: none
  memory::desc residual{};          // added after the bias; empty: none
  bool residual_in_result = false;  // it stands where the result will be
  uint32_t activation = TN_OP_identity;
  bool variant = false;  // gelu's tanh form
};

// relu is elu without its negative part: oneDNN's own relu makes 0 of a NaN. What is left of negatives is -0, and adding 0
// gives them their sign back. [may throw dnnl::error]
inline void append(dnnl::post_ops& ops, dnnl::algorithm algorithm, float alpha = 0, float beta = 0) {
#if DNNL_VERSION_MAJOR >= 3
  ops.append_eltwise(algorithm, alpha, beta);
#else
  ops.append_eltwise(1, algorithm, alpha, beta);
#endif
}
inline void append_activation(dnnl::post_ops& ops, uint32_t op, bool variant) {
  using dnnl::algorithm;
  switch (op) {
    case TN_OP_relu:
      append(ops, algorithm::eltwise_elu);
      return append(ops, algorithm::eltwise_linear, 1, 0);
    case TN_OP_gelu:
      return append(ops, variant ? algorithm::eltwise_gelu_tanh : algorithm::eltwise_gelu_erf);
    case TN_OP_sigmoid:
      return append(ops, algorithm::eltwise_logistic);
    case TN_OP_tanh:
      return append(ops, algorithm::eltwise_tanh);
    case TN_OP_silu:
      return append(ops, algorithm::eltwise_swish, 1);
    default:
      return;
  }
}

// The caller's scratchpad, and what comes after the product. [any-thread; may throw dnnl::error]
inline dnnl::primitive_attr attributes(const Finish& finish = {}) {
  dnnl::primitive_attr out;
  out.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops ops;
  if (finish.residual_in_result)
    ops.append_sum(1);
  else if (finish.residual != memory::desc())
    ops.append_binary(dnnl::algorithm::binary_add, finish.residual);
  append_activation(ops, finish.activation, finish.variant);
  out.set_post_ops(ops);
  return out;
}
// The argument of the residual, which is the first post-op.
inline constexpr int residual_argument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;

// c = a × b, finished. [any-thread; may block; may throw dnnl::error]
inline dnnl::matmul::primitive_desc matmul_description(const memory::desc& a, const memory::desc& b,
                                                       const memory::desc& c, const Finish& finish) {
  const bool biased = finish.bias != memory::desc();
#if DNNL_VERSION_MAJOR >= 3
  if (biased) return {engine(), a, b, finish.bias, c, attributes(finish)};
  return {engine(), a, b, c, attributes(finish)};
#else
  const auto what = biased ? dnnl::matmul::desc(a, b, finish.bias, c) : dnnl::matmul::desc(a, b, c);
  return {what, attributes(finish), engine()};
#endif
}

// The same shape in another type, laid out as a primitive likes it best. [any-thread; may throw dnnl::error]
inline memory::desc any_like(const memory::desc& of, memory::data_type type) {
#if DNNL_VERSION_MAJOR >= 3
  return {of.get_dims(), type, memory::format_tag::any};
#else
  return {of.dims(), type, memory::format_tag::any};
#endif
}

// How a window slides over an image; dilations as oneDNN counts them, 0 for neighbours.
struct Sliding {
  memory::dims stride, dilation, before, after;
};
struct ConvDescs {
  memory::desc image, weights, result;
};

// result = image ∗ weights, finished. [any-thread; may block; may throw dnnl::error]
inline dnnl::convolution_forward::primitive_desc forward_description(
    const ConvDescs& of, const Sliding& slide, const Finish& finish,
    dnnl::prop_kind kind = dnnl::prop_kind::forward_inference) {
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  const bool biased = finish.bias != memory::desc();
#if DNNL_VERSION_MAJOR >= 3
  if (biased)
    return {engine(),  kind,         direct,         of.image,     of.weights,  finish.bias,
            of.result, slide.stride, slide.dilation, slide.before, slide.after, attributes(finish)};
  return {engine(),     kind,           direct,       of.image,    of.weights,        of.result,
          slide.stride, slide.dilation, slide.before, slide.after, attributes(finish)};
#else
  using Forward = dnnl::convolution_forward;
  const auto what = biased ? Forward::desc(kind, direct, of.image, of.weights, finish.bias, of.result,
                                           slide.stride, slide.dilation, slide.before, slide.after)
                           : Forward::desc(kind, direct, of.image, of.weights, of.result, slide.stride,
                                           slide.dilation, slide.before, slide.after);
  return {what, attributes(finish), engine()};
#endif
}

// Either gradient of a convolution. [any-thread; may block; may throw dnnl::error]
template <class Backward>
typename Backward::primitive_desc backward_description(const ConvDescs& of, const Sliding& slide) {
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  const auto forward = forward_description(of, slide, {}, dnnl::prop_kind::forward_training);
#if DNNL_VERSION_MAJOR >= 3
  return {engine(),       direct,       of.image,    of.weights, of.result,   slide.stride,
          slide.dilation, slide.before, slide.after, forward,    attributes()};
#else
  return {typename Backward::desc(direct, of.image, of.weights, of.result, slide.stride, slide.dilation,
                                  slide.before, slide.after),
          attributes(), engine(), forward};
#endif
}

}  // namespace tenon::cpu::onednn
