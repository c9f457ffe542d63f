// SPDX-License-Identifier: Apache-2.0
// match.hpp: finds a device's patterns in a graph.
//
// Invariant: a match binds every step that is not optional to a node of its own; equal free inputs are equal values.
#pragma once

#include <tenon/fusion.hpp>

#include <string>
#include <vector>

namespace tenon::fusion {

// A pattern without options: some of its optional steps are there, the others are not.
struct Variant {
  struct Step {
    std::vector<Op> ops{};
    std::vector<uint32_t> operands{};  // as FusionPattern::Step
    bool output = false;
  };
  std::vector<Step> steps{};
  std::vector<uint32_t> order{};  // in which steps are matched; each but the first touches one before it
};

// All variants, the largest first. TN_INVALID for a pattern that cannot be matched: no steps, an operand that does not stand
// before, an optional step without operands, steps that touch no other, too many options.
// [any-thread; does not block; may fail]
Result<std::vector<Variant>> variants_of(const FusionPattern& pattern);

// Nodes for the steps of `variant` with `node` as the first that is matched, or none.
// [any-thread; does not block; cannot fail]
std::vector<uint32_t> match(const Graph& graph, const Variant& variant, uint32_t node);

// A value that is used outside the nodes of a match although the variant keeps it inside; TN_ABSENT: none.
// `is_output` tells which values are outputs of the graph.
uint32_t escaping_value(const Graph& graph, const std::vector<bool>& is_output, const Variant& variant,
                        const std::vector<uint32_t>& nodes);

}  // namespace tenon::fusion
