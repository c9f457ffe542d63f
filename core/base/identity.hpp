// SPDX-License-Identifier: Apache-2.0
// identity.hpp: the name of a fragment: a digest over everything that changes what it computes or how it may be bound.
//
// Covered: ops, versions, attributes, tensors (type, dims, strides, layout, flags, alignment, constant bytes), the order
// of inputs and outputs, aliases. Not covered: names, pointers, links.
#pragma once

#include "base/sha256.hpp"

#include <tenon/fragment.h>

namespace tenon::base {

// Of a well-formed fragment whose dense strides are left out. [any-thread; does not block; cannot fail]
Digest identity_of(const tn_fragment& fragment) noexcept;

}  // namespace tenon::base
