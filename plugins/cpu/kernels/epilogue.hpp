// SPDX-License-Identifier: Apache-2.0
// epilogue.hpp: the elementwise nodes that a product (matmul, conv2d) computes before it writes its result:
// a bias, then something to add, then an activation, any of them missing.
//
// Invariant: no value between the nodes is wanted by anybody else, so none is ever written; halves are rounded once, after
// the last node.
#pragma once

#include "builder.hpp"

namespace tenon::cpu {

struct Epilogue {
  uint32_t end = 0;               // one past its last node
  uint32_t result = 0;            // the tensor that the last node makes
  uint32_t bias = TN_ABSENT;      // an element for each column, or channel
  uint32_t residual = TN_ABSENT;  // of the result's dims
  uint32_t activation = TN_OP_identity;
  bool variant = false;  // gelu's tanh form
};

// What node `product` takes along from the nodes that follow it at once; nothing where no engine could.
// [any-thread; does not block; cannot fail]
Epilogue epilogue_of(const FragmentView& fragment, uint32_t product);

// Family::takes of products.
Nodes product_nodes(const FragmentView& fragment, uint32_t at);

// Whether a node of [first, end) reads the tensor.
bool read_in(const FragmentView& fragment, uint32_t tensor, const Nodes& nodes);
// Whether any node outside [first, end), or the fragment's caller, reads the tensor.
bool wanted_outside(const FragmentView& fragment, uint32_t tensor, const Nodes& nodes);

}  // namespace tenon::cpu
