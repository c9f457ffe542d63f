// SPDX-License-Identifier: Apache-2.0
// options.hpp: the options that the runtime itself reads, and whether all options have the right form.
//
// Invariant: what contradicts itself is refused by name and value before any plugin is touched.
#pragma once

#include "runtime/host.hpp"

#include <string>
#include <vector>

namespace tenon::runtime {

struct OwnOptions {
  double reserve_fraction = 1;  // "pool.reserve_fraction", in (0, 1]
  // Of the options, then of TENON_LAYERS, where "%r" is the rank and "%p" the number of the process.
  std::vector<std::string> layers;
};

// TN_INVALID naming key and value: a key without a dot, an unknown "pool." key (with the nearest), a fraction outside
// (0, 1]. [any-thread; does not block; may fail]
Result<OwnOptions> read_options(const RuntimeOptions& options, const Host& host);

}  // namespace tenon::runtime
