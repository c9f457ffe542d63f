// SPDX-License-Identifier: Apache-2.0
// lookup.hpp: short rows of a dense table by number: pixels, mostly, whose numbers follow each other.
//
// Invariant: a number outside the table gives zeros.
#pragma once

#include "step.hpp"
#include "view.hpp"

#include <memory>

namespace tenon::cpu {

// The step; nullptr where a row has not 2, 4, 6, 8, 12 or 16 bytes, something has gaps, or numbers have fewer than 32 bits: then
// rows are moved one by one. [any-thread; does not block; may throw bad_alloc]
std::unique_ptr<Step> short_lookup(const Place& numbers, TensorView numbers_view, const Place& table,
                                   TensorView table_view, const Place& to, TensorView to_view);

}  // namespace tenon::cpu
