// SPDX-License-Identifier: Apache-2.0
// amp_lists.hpp: the rows of amp_lists.def as data, and which inputs of an op they are about.
//
// Invariant: an op of ops.def without a row, or with two, does not compile.
#pragma once

#include <tenon/graph.hpp>
#include <tenon/passes.hpp>

namespace tenon::passes {

enum class AmpList : uint8_t { WHITE, BLACK, GREY, OWN };

// [any-thread; does not block; cannot fail]
AmpList amp_list(Op op, AmpLevel level) noexcept;
// Whether input `i` has the type in which the op computes: not the statistics of a normalisation, a condition, an index.
// [any-thread; does not block; cannot fail]
bool is_subject(Op op, size_t i) noexcept;
// Whether output `i` has that type too: not the statistics and losses, which are f32 whatever comes in.
// [any-thread; does not block; cannot fail]
bool gives_subject(Op op, size_t i) noexcept;

}  // namespace tenon::passes
