// SPDX-License-Identifier: Apache-2.0
// pattern.hpp: fragments that match a fusion, made from the fusion as data.
//
// The step that decides shapes is the first that is not elementwise: it is drawn as level 1 draws it. What stands before it
// takes the shape it needs, what stands behind takes the shape it gives; operands that no step gives are free inputs.
// Invariant: a fragment that is made matches the pattern by the rules of tn_pattern_step, and every choice that the
// pattern leaves (an op of several, a step that may be missing, operands the other way round, a value used outside) is
// drawn.
#pragma once

#include "conformance/fragments/group.hpp"
#include "conformance/ops/choices.hpp"

namespace tenon::conform {

class Vocabulary;

struct Pattern {
  struct Step {
    std::vector<const Row*> rows{};    // any one of these
    std::vector<uint32_t> operands{};  // a step, or TN_PATTERN_INPUT + n
    bool optional = false, output = false;
  };
  std::string name{};
  std::vector<Step> steps{};
};

// A published pattern; TN_INVALID where it is none by tn_pattern_step, with the step. [any-thread; may fail]
Result<Pattern> read_pattern(const tn_pattern& raw);
// `row` with an elementwise node before one of its inputs and one behind its result, of what is known (null: anything).
// [any-thread; may throw bad_alloc]
Pattern among_neighbours(const Row& row, uint32_t subject, const Vocabulary* known, Choices& choices);

// A fragment of about `budget` elements that matches, its floats of type `dtype`; nothing where these choices come to none.
// [any-thread; may throw bad_alloc]
std::optional<Group> draw_match(const Pattern& pattern, uint32_t dtype, bool strided, uint64_t budget,
                                Choices& choices);

}  // namespace tenon::conform
