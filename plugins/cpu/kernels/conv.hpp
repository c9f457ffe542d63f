// SPDX-License-Identifier: Apache-2.0
// conv.hpp: a convolution, or one of its gradients, as figures.
//
// Invariant: all sizes are positive; strides are in elements and in logical order, whatever lies nearest in memory.
#pragma once

#include "builder.hpp"

#include <array>

namespace tenon::cpu {

using Four = std::array<int64_t, 4>;

// An image tensor [N, C, H, W], or weights [O, C/groups, R, S].
struct ConvTensor {
  Place place{};
  uint32_t dtype = 0;
  Four dims{}, strides{};
};

struct Conv {
  uint32_t op = TN_OP_conv2d;  // or a gradient: then `image` or `weights` is what is made
  int64_t groups = 1;
  std::array<int64_t, 2> stride{}, dilation{}, before{}, after{};
  ConvTensor image, weights, result;
  // What is computed on the result before it is written; conv2d by oneDNN only.
  Place bias{};      // nowhere, or dense channels of the result's type
  Place residual{};  // nowhere, or what lies as the result does
  uint32_t activation = TN_OP_identity;
  bool variant = false;  // gelu's tanh form

  ConvTensor& made() noexcept {
    return op == TN_OP_conv2d ? result : op == TN_OP_conv2d_grad_data ? image : weights;
  }
};

// How an image lies in memory, dims of one element aside.
enum class Order { channels_first, channels_last, other };
// Whether strides are those of channels_first or channels_last.
bool lies_in(Order order, const Four& dims, const Four& strides) noexcept;
// The first of the two where both fit.
Order order_of(const Four& dims, const Four& strides) noexcept;
// The strides of an image without gaps; of `other` those of channels_first.
Four strides_in(Order order, const Four& dims) noexcept;

// f64 by plain loops. Any strides.
std::unique_ptr<Step> plain_conv(const Conv& conv);

// f32 or bf16 in all three tensors, images that are channels_first or channels_last, weights without repeated elements.
// `free`: images, too, are brought into the layout that the kernel asks for. Steps are appended to `steps`. TN_UNSUPPORTED
// with oneDNN's reason. [any-thread; may block; may fail]
Status onednn_conv(Builder& builder, const Conv& conv, bool free, unsigned threads, Steps& steps);

// Whether the gradient of an image is a convolution itself, of the result's gradient with turned weights: windows that move by one.
bool can_turn(const Conv& conv) noexcept;
// That convolution. What turns the weights is appended to `steps`. The gradient must be one that can_turn. [any-thread; may block;
// cannot fail]
Conv turned(Builder& builder, const Conv& conv, Steps& steps);

// The same in the way that suits it best: by the builder's search, else by a table of shapes. [any-thread; may block; may
// fail]
Status build_convolution(Builder& builder, const Conv& conv, unsigned threads, Steps& steps);

}  // namespace tenon::cpu
