// SPDX-License-Identifier: Apache-2.0
// panels.hpp: a product that is used up while it is in cache: a few rows are made, and what reads them runs on them at once.
//
// What follows is a pass (a gradient of an activation with the bias gradient behind it, dropout, a residual, an activation
// whose input is wanted too) or a kernel of rows (layer_norm, rms_norm, softmax, cross_entropy) with the nodes around it.
// The product is written to memory only if somebody else wants it: 2 · rows · columns elements are not moved.
// Invariant: rows are cut by the shape alone; each step gives what it gives on the whole.
#pragma once

#include "builder.hpp"

#include <string>

namespace tenon::cpu {

// Why the nodes of `product` (a matmul and what it took in) are not used up by those of `tail`, the next group; "" when they
// are. [any-thread; does not block; cannot fail]
std::string why_no_panels(const FragmentView& fragment, const Nodes& product, const Group& tail);

// Adds the step of both. [any-thread; may block; may fail]
Status build_panels(Builder& builder, uint32_t first, uint32_t end, unsigned threads);

}  // namespace tenon::cpu
