// SPDX-License-Identifier: Apache-2.0
// convolution.hpp: a fragment around one convolution, or one of its gradients, as figures.
//
// Behind conv2d may stand what a library computes while it writes: a bias for each channel, something to add, an activation.
// Invariant: a convolution that is read writes exactly the fragment's output. Nothing here depends on a driver or a library.
#pragma once

#include "placed.hpp"

namespace tenon::cuda {

inline constexpr uint32_t most_conv_bindings = 5;

struct Convolution {
  uint32_t op = TN_OP_conv2d;  // or a gradient: then `image` or `filter` is what is made
  uint32_t dtype = TN_DTYPE_NONE;
  std::array<int64_t, 2> stride{}, dilation{}, before{}, after{};
  Placed image{}, filter{}, result{};
  Placed bias{}, residual{};  // added to what conv2d makes
  uint32_t activation = TN_OP_identity;
  bool tanh = false;  // gelu by its tanh form

  const Placed& made() const noexcept {
    return op == TN_OP_conv2d ? result : op == TN_OP_conv2d_grad_data ? image : filter;
  }
  bool has_epilogue() const noexcept {
    return bias.is_there() || residual.is_there() || activation != TN_OP_identity;
  }
};

// Whether a fragment is one of convolutions: it has conv2d or a gradient of it. [any-thread; does not block; cannot fail]
bool has_convolution(const author::FragmentView& fragment) noexcept;

// TN_UNSUPPORTED with the reason, TN_INVALID for what ops.def forbids; both name the node or the tensor. At most a few
// microseconds. [any-thread; does not block; may fail]
Result<Convolution> read_convolution(const author::FragmentView& fragment);

// All that a convolution is, in one line; equal lines are equal convolutions. [any-thread; does not block; may throw bad_alloc]
std::string told(const Convolution& convolution);

}  // namespace tenon::cuda
