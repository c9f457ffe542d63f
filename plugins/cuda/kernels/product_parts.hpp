// SPDX-License-Identifier: Apache-2.0
// product_parts.hpp: which node of a fragment plays which part around its matmul.
//
// Invariant: every node has a part, every value between nodes has one reader, and every output of the fragment is written.
#pragma once

#include "product.hpp"

namespace tenon::cuda {

// Tensors of the fragment; TN_ABSENT where there is none.
struct ProductParts {
  uint32_t a = TN_ABSENT, b = TN_ABSENT;  // as ops.def has them
  bool turn_a = false, turn_b = false;
  uint32_t result = TN_ABSENT;  // what the last of the nodes in a row makes
  uint32_t bias = TN_ABSENT, residual = TN_ABSENT;
  uint32_t aux = TN_ABSENT;   // what gelu reads, and is wanted; what its gradient reads beside dy
  uint32_t sums = TN_ABSENT;  // the vector of sums
  uint32_t summed = TN_ABSENT;
  uint32_t axis = TN_ABSENT;  // of the result, that a bias or the sums of the result run along
  Activation activation = Activation::none;
};

// [any-thread; does not block; may fail]
Result<ProductParts> parts_of(const author::FragmentView& fragment);

}  // namespace tenon::cuda
