// SPDX-License-Identifier: Apache-2.0
// patterns.hpp: the fusions that this plugin publishes, as data.
//
// Invariant: what a pattern describes is one step here whenever the shapes allow it; `supports` says so, or why not.
#pragma once

#include <tenon/kernel.h>

namespace tenon::cpu {

// Lives as long as the library. [any-thread; does not block; cannot fail]
tn_pattern_list published_patterns() noexcept;

}  // namespace tenon::cpu
