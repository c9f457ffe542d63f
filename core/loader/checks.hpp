// SPDX-License-Identifier: Apache-2.0
// checks.hpp: whether a loader can be made of a data set and options.
//
// Invariant: what passes is taken for granted by the rest of the room.
#pragma once

#include <tenon/loader.hpp>

namespace tenon::loader {

// TN_INVALID naming the option or tensor, its value and what would do. [any-thread; does not block; may fail]
Status check(const Dataset& dataset, const LoaderOptions& options);

}  // namespace tenon::loader
