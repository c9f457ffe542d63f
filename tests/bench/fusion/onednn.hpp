// SPDX-License-Identifier: Apache-2.0
// onednn.hpp: oneDNN as a peer: primitives bound to their memory, 2.6 and 3.x behind one spelling.
//
// Invariant: no other file of this suite tests DNNL_VERSION_MAJOR. A primitive plans for the threads of the thread that
// makes it, so all are made where they run: on the stream's worker.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <unordered_map>

namespace bench::onednn {

using dnnl::memory;
using Dims = memory::dims;
using Type = memory::data_type;

inline const dnnl::engine& engine() {
  static const auto& shared = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return shared;
}

// One primitive with its memory.
struct Call {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
  void operator()() const {
    dnnl::stream stream(engine());
    primitive.execute(stream, arguments);
    stream.wait();
  }
};

inline memory::desc dense(const Dims& dims, Type type = Type::f32) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
  return memory::desc(dims, type, strides);
}

inline memory bound(const memory::desc& desc, const void* address) {
  return memory(desc, engine(), const_cast<void*>(address));
}

// A convolution's tensors, and how its square window slides.
struct ConvDescs {
  memory::desc image, weights, result;
};
struct Window {
  Dims stride, pad;
};

#if DNNL_VERSION_MAJOR >= 3
using softmax_forward = dnnl::softmax_forward;
using softmax_backward = dnnl::softmax_backward;

inline auto softmax_description(const memory::desc& x, int axis) {
  return softmax_forward::primitive_desc(engine(), dnnl::prop_kind::forward_training,
                                         dnnl::algorithm::softmax_accurate, x, x, axis);
}
inline auto softmax_grad_description(const memory::desc& x, int axis) {
  return softmax_backward::primitive_desc(engine(), dnnl::algorithm::softmax_accurate, x, x, x, axis,
                                          softmax_description(x, axis));
}
template <class Norm>
auto norm_description(const memory::desc& x, dnnl::normalization_flags flags) {
  return typename Norm::primitive_desc(engine(), dnnl::prop_kind::forward_training, x, x, 1e-5f, flags);
}
template <class Grad, class Forward>
auto norm_grad_description(const memory::desc& x, dnnl::normalization_flags flags, const Forward& forward) {
  return typename Grad::primitive_desc(engine(), dnnl::prop_kind::backward, x, x, x, 1e-5f, flags, forward);
}
inline void append(dnnl::post_ops& ops, dnnl::algorithm algorithm, float alpha, float beta) {
  ops.append_eltwise(algorithm, alpha, beta);
}
inline auto matmul_description(const memory::desc& a, const memory::desc& b, const memory::desc& c,
                               const dnnl::primitive_attr& then) {
  return dnnl::matmul::primitive_desc(engine(), a, b, c, then);
}
inline auto sum_description(const memory::desc& x, const dnnl::primitive_attr& then) {
  return dnnl::binary::primitive_desc(engine(), dnnl::algorithm::binary_add, x, x, x, then);
}
inline auto conv_description(const ConvDescs& of, const Window& w) {
  return dnnl::convolution_forward::primitive_desc(engine(), dnnl::prop_kind::forward_training,
                                                   dnnl::algorithm::convolution_direct, of.image, of.weights,
                                                   of.result, w.stride, w.pad, w.pad);
}
template <class Grad>
auto conv_grad_description(const ConvDescs& of, const Window& w) {
  return typename Grad::primitive_desc(engine(), dnnl::algorithm::convolution_direct, of.image, of.weights,
                                       of.result, w.stride, w.pad, w.pad, conv_description(of, w));
}
#else
using softmax_forward = dnnl::softmax_v2_forward;
using softmax_backward = dnnl::softmax_v2_backward;

inline auto softmax_description(const memory::desc& x, int axis) {
  return softmax_forward::primitive_desc(
      {dnnl::prop_kind::forward_training, dnnl::algorithm::softmax_accurate, x, x, axis}, engine());
}
inline auto softmax_grad_description(const memory::desc& x, int axis) {
  return softmax_backward::primitive_desc({dnnl::algorithm::softmax_accurate, x, x, x, axis}, engine(),
                                          softmax_description(x, axis));
}
template <class Norm>
auto norm_description(const memory::desc& x, dnnl::normalization_flags flags) {
  return typename Norm::primitive_desc({dnnl::prop_kind::forward_training, x, 1e-5f, flags}, engine());
}
template <class Grad, class Forward>
auto norm_grad_description(const memory::desc& x, dnnl::normalization_flags flags, const Forward& forward) {
  return typename Grad::primitive_desc({dnnl::prop_kind::backward, x, x, 1e-5f, flags}, engine(), forward);
}
inline void append(dnnl::post_ops& ops, dnnl::algorithm algorithm, float alpha, float beta) {
  ops.append_eltwise(1.0f, algorithm, alpha, beta);
}
inline auto matmul_description(const memory::desc& a, const memory::desc& b, const memory::desc& c,
                               const dnnl::primitive_attr& then) {
  return dnnl::matmul::primitive_desc({a, b, c}, then, engine());
}
inline auto sum_description(const memory::desc& x, const dnnl::primitive_attr& then) {
  return dnnl::binary::primitive_desc({dnnl::algorithm::binary_add, x, x, x}, then, engine());
}
inline auto conv_description(const ConvDescs& of, const Window& w) {
  return dnnl::convolution_forward::primitive_desc(
      {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, of.image, of.weights,
       of.result, w.stride, w.pad, w.pad},
      engine());
}
template <class Grad>
auto conv_grad_description(const ConvDescs& of, const Window& w) {
  return typename Grad::primitive_desc(
      {dnnl::algorithm::convolution_direct, of.image, of.weights, of.result, w.stride, w.pad, w.pad},
      engine(), conv_description(of, w));
}
#endif

// Attributes that end a primitive with an elementwise op.
inline dnnl::primitive_attr followed_by(dnnl::algorithm algorithm, float alpha = 0, float beta = 0) {
  dnnl::post_ops ops;
  append(ops, algorithm, alpha, beta);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(ops);
  return attributes;
}

inline void in_turn(const std::vector<Call>& calls) {
  for (const Call& call : calls) call();
}

inline Call reorder(const float* in, void* out, int64_t count) {
  const memory from = bound(dense({count}), in), to = bound(dense({count}, Type::bf16), out);
  return {dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

}  // namespace bench::onednn

namespace bench {

using onednn::bound;
using onednn::Call;
using onednn::in_turn;
using onednn::memory;

}  // namespace bench
