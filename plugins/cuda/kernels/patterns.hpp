// SPDX-License-Identifier: Apache-2.0
// patterns.hpp: the fusions that this plugin publishes, as data.
//
// Elementwise groups, and what leads to and from a reduction, need no row: hosts grow those by themselves.
// Invariant: what a pattern describes is taken as one fragment whatever its shapes, types and strides are.
#pragma once

#include <tenon/kernel.h>

namespace tenon::cuda {

// Lives as long as the library. [any-thread; does not block; cannot fail]
tn_pattern_list published_patterns() noexcept;

}  // namespace tenon::cuda
