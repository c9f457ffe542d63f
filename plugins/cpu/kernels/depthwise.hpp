// SPDX-License-Identifier: Apache-2.0
// depthwise.hpp: relu before a depthwise convolution, and behind its data gradient, in one step.
//
// A channel's plane is read once into L2, through relu, and the taps are summed from there; backward the taps are summed
// there and go through relu's gradient on their way out. Apart the two nodes read and write the image twice as often.
// Invariant: sums are over taps in order, so results depend on no thread.
#pragma once

#include "builder.hpp"

namespace tenon::cpu {

// Why the convolution `at` and the relu beside it are two steps; "" when they are one. [any-thread; cannot fail]
std::string why_no_depthwise(const FragmentView& fragment, uint32_t at);

// Family::takes of convolutions: an epilogue, or the relu of a depthwise one.
Nodes conv_nodes(const FragmentView& fragment, uint32_t at);

// Adds the step of the nodes [first, end): the convolution, and what `conv_nodes` took. [any-thread; may block; may fail]
Status build_conv_nodes(Builder& builder, uint32_t first, uint32_t end, unsigned threads);

}  // namespace tenon::cpu
