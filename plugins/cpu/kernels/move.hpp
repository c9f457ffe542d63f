// SPDX-License-Identifier: Apache-2.0
// move.hpp: elements taken from one order to another, bytes untouched.
//
// Invariant: a move knows the width of an element and nothing else of its type, so a NaN keeps its payload.
#pragma once

#include "step.hpp"
#include "view.hpp"

#include <memory>

namespace tenon::cpu {

// Moves n elements; steps are in elements, and a source step of 0 repeats one.
using MoveRun = void (*)(std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step,
                         uint64_t n);

// For elements of 1, 2, 4 or 8 bytes. [any-thread; does not block; cannot fail]
MoveRun move_run(uint32_t element_bytes) noexcept;

// Element i of one view to the place of element i of the other; both are of one dtype and have as many elements.
std::unique_ptr<Step> move_step(const Place& from, const View& from_view, const Place& to,
                                const View& to_view);

}  // namespace tenon::cpu
