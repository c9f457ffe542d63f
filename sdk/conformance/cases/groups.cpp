// SPDX-License-Identifier: Apache-2.0
// groups.cpp: level 2, fragments that the kit draws: every op among neighbours, and groups of elementwise nodes and
// reductions.
//
// Invariant: no op is named here; a row added to ops.def has its case.
#include "conformance/case.hpp"
#include "conformance/fragments/ask_group.hpp"
#include "conformance/fragments/draw_group.hpp"
#include "conformance/fragments/pattern.hpp"
#include "conformance/fragments/vocabulary.hpp"

namespace tenon::conform {

namespace {

// What the plugin takes in fragments.
Result<const Vocabulary*> vocabulary(Context& t) {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_kernels(t, device));
  return Vocabulary::of(t, device);
}

Status among(Context& t) {
  const Case& wanted = *t.wanted();
  const Row& row = *find_row(std::string_view(wanted.op));
  const uint32_t dtype = find_dtype(wanted.dtype);
  const Vocabulary* const known = TN_TRY(vocabulary(t));
  const GroupForm neighbours{.most_nodes = 5, .broadcast = true, .several = true, .known = known};
  const bool elementwise = row.shape == ShapeRule::BROADCAST;
  const auto draw = [&](Choices& choices, uint64_t budget) -> std::optional<Group> {
    if (elementwise) return draw_group_with(row, dtype, neighbours, budget, choices);
    const Pattern pattern = among_neighbours(row, dtype, known, choices);
    return draw_match(pattern, dtype, choices.chance(3), budget, choices);
  };
  return run_group_case(t, words("fused.", wanted.op, ".", wanted.dtype), draw, 1, {{&row, dtype}});
}

// Updates have cases of their own; a tensor in a private layout is nobody's inner value.
bool has_neighbours(const Row& row) {
  return is_single(row) && row.family != Family::OPTIMIZER && row.family != Family::SCALING &&
         row.op != TN_OP_convert_layout;
}

[[maybe_unused]] const bool groups_registered = [] {
  for (const Row& row : op_rows) {
    if (!has_neighbours(row)) continue;
    for (const uint32_t dtype : subjects(row)) {
      const char* const type = kept(std::string(author::dtype_name(dtype)));
      const Registration added({.level = 2,
                                .name = kept(words("fused ", row.name, ": ", type,
                                                   " gives among its neighbours what it gives alone")),
                                .run = among,
                                .op = row.name,
                                .dtype = type});
    }
  }
  return true;
}();

Status run(Context& t, const char* tag, GroupForm form) {
  form.known = TN_TRY(vocabulary(t));
  TN_TRY(t.needs(!form.known->empty(), tag, "the plugin takes no elementwise op in a fragment of two nodes"));
  const auto draw = [&](Choices& choices, uint64_t budget) {
    return std::optional(draw_group(form, budget, choices));
  };
  return run_group_case(t, tag, draw, 3);
}

}  // namespace

CONFORM_CASE(2, "group: chains of elementwise nodes give what their ops give") {
  return run(t, "group.elementwise", {.most_nodes = 8});
}

CONFORM_CASE(2, "group: integers and bools stay exact") {
  return run(t, "group.integer", {.most_nodes = 10, .mixed = true, .integers = true});
}

CONFORM_CASE(2, "group: operands are repeated along the right dims") {
  return run(t, "group.broadcast", {.most_nodes = 8, .broadcast = true});
}

CONFORM_CASE(2, "group: inner values are given out and read further") {
  return run(t, "group.outputs", {.least_nodes = 3, .most_nodes = 10, .several = true});
}

CONFORM_CASE(2, "group: types change on the way") {
  return run(t, "group.cast", {.least_nodes = 3, .most_nodes = 12, .mixed = true, .several = true});
}

CONFORM_CASE(2, "group: constants are part of the fragment") {
  return run(t, "group.constant", {.most_nodes = 8, .broadcast = true, .constants = true});
}

CONFORM_CASE(2, "group: reductions stand at the end and in the middle") {
  return run(t, "group.reduction", {.most_nodes = 8, .broadcast = true, .reductions = true, .several = true});
}

CONFORM_CASE(2, "group: bound values have strides, gaps and other orders of dims") {
  return run(t, "group.strided",
             {.most_nodes = 8, .broadcast = true, .reductions = true, .several = true, .strided = true});
}

CONFORM_CASE(2, "group: results take the place of inputs that are still read") {
  return run(t, "group.in_place", {.least_nodes = 3, .most_nodes = 8, .several = true, .in_place = true});
}

CONFORM_CASE(2, "group: thirty-two nodes with everything in them") {
  return run(t, "group.long",
             {.least_nodes = 8,
              .most_nodes = 32,
              .mixed = true,
              .broadcast = true,
              .constants = true,
              .reductions = true,
              .several = true});
}

}  // namespace tenon::conform
