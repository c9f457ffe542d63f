// SPDX-License-Identifier: Apache-2.0
// patterns.hpp: the fusions that this plugin publishes, as data.
//
// Elementwise groups, and what leads to and from a reduction, need no row: hosts grow those by themselves.
// Invariant: what a pattern describes is one kernel here wherever types and strides allow it; `supports` says so, or why not.
#pragma once

#include <tenon/kernel.h>

namespace tenon::cuda {

// Those of products and of convolutions only where there is a library to compute them. Lives as long as the plugin.
// [any-thread; does not block; cannot fail]
tn_pattern_list published_patterns(bool products, bool convolutions) noexcept;

}  // namespace tenon::cuda
