// SPDX-License-Identifier: Apache-2.0
// conv_graph.cpp: a convolution, what is added to it, and an activation, one operation after the other.
#include "conv_graph.hpp"

#include <array>

namespace tenon::cuda {

namespace {

cudnnPointwiseMode_t activation_mode(const Convolution& c) noexcept {
  switch (c.activation) {
    case TN_OP_relu:
      return CUDNN_POINTWISE_RELU_FWD;
    case TN_OP_sigmoid:
      return CUDNN_POINTWISE_SIGMOID_FWD;
    case TN_OP_tanh:
      return CUDNN_POINTWISE_TANH_FWD;
    case TN_OP_silu:
      return CUDNN_POINTWISE_SWISH_FWD;
    default:
      return c.tanh ? CUDNN_POINTWISE_GELU_APPROX_TANH_FWD : CUDNN_POINTWISE_GELU_FWD;
  }
}

// The attributes of one kind of convolution: its descriptor, image, filter, result, and the factor of the sums.
struct ConvNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t shape, image, filter, result, alpha, beta;
};

constexpr ConvNames forward_names{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr ConvNames data_names{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr ConvNames weight_names{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

const ConvNames& names_of(uint32_t op) noexcept {
  if (op == TN_OP_conv2d) return forward_names;
  return op == TN_OP_conv2d_grad_data ? data_names : weight_names;
}

class ConvBuilder {
 public:
  ConvBuilder(const Cudnn& library, const Convolution& convolution, int64_t alignment)
      : c_(convolution), graph_(library, alignment) {}

  Result<Descriptor> run() {
    uint32_t left = (c_.residual.is_there() ? 1 : 0) + (c_.bias.is_there() ? 1 : 0) +
                    (c_.activation != TN_OP_identity ? 1 : 0);
    GraphTensor value = TN_TRY(left == 0 ? bound(c_.result) : between());
    TN_TRY(convolve(value));
    // The library has ready-made kernels for a sum in this order.
    for (const Placed* added : {&c_.residual, &c_.bias}) {
      if (!added->is_there()) continue;
      const GraphTensor other = TN_TRY(bound(*added));
      value = TN_TRY(step(CUDNN_POINTWISE_ADD, value, &other, --left == 0));
    }
    if (left != 0) value = TN_TRY(step(activation_mode(c_), value, nullptr, true));
    return graph_.finish();
  }

 private:
  Result<GraphTensor> bound(const Placed& placed) { return graph_.bound(placed, cudnn_type(c_.dtype)); }
  Result<GraphTensor> between() {
    return graph_.between(c_.result.dims, c_.result.strides, CUDNN_DATA_FLOAT);
  }

  Result<Descriptor> shape() {
    constexpr cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    Descriptor out = TN_TRY(Descriptor::make(graph_.library(), CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
    TN_TRY(out.set_type(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT));
    TN_TRY(out.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
    TN_TRY(out.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::array<int64_t, 1>{2}));
    TN_TRY(out.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, c_.dilation));
    TN_TRY(out.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c_.stride));
    TN_TRY(out.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c_.before));
    TN_TRY(out.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, c_.after));
    TN_TRY(out.finalize());
    return out;
  }

  Status convolve(const GraphTensor& result) {
    const ConvNames& names = names_of(c_.op);
    const float one = 1, zero = 0;
    Descriptor out = TN_TRY(Descriptor::make(graph_.library(), names.type));
    TN_TRY(out.set(names.shape, TN_TRY(shape())));
    TN_TRY(out.set(names.image, TN_TRY(bound(c_.image)).descriptor));
    TN_TRY(out.set(names.filter, TN_TRY(bound(c_.filter)).descriptor));
    TN_TRY(out.set(names.result, result.descriptor));
    TN_TRY(out.set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one));
    TN_TRY(out.set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero));
    return graph_.add(std::move(out));
  }

  Result<GraphTensor> step(cudnnPointwiseMode_t mode, const GraphTensor& value, const GraphTensor* other,
                           bool last) {
    GraphTensor made = TN_TRY(last ? bound(c_.result) : between());
    TN_TRY(graph_.pointwise({.mode = mode, .x = value, .b = other}, made));
    return made;
  }

  const Convolution& c_;
  CudnnGraph graph_;
};

}  // namespace

Result<Descriptor> conv_graph(const Cudnn& library, const Convolution& convolution, int64_t alignment) {
  return ConvBuilder(library, convolution, alignment).run();
}

}  // namespace tenon::cuda
