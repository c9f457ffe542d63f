// SPDX-License-Identifier: Apache-2.0
// graphs.cpp: level 4, whole graphs as one fragment.
//
// A plugin that takes nothing less (feature WHOLE_GRAPH) has to take these; any other may refuse, and its host cuts them.
#include "conformance/case.hpp"
#include "conformance/fragments/ask_group.hpp"
#include "conformance/fragments/draw_group.hpp"
#include "conformance/fragments/network.hpp"
#include "conformance/fragments/vocabulary.hpp"

namespace tenon::conform {

namespace {

Status whole_graphs(Context& t, const char* tag, const DrawGroup& draw) {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_kernels(t, device));
  const Tally tally = TN_TRY(run_groups(t, device, draw));
  tell(t, tally);
  const bool nothing_less = (device.api().copy.features & TN_FEATURE_WHOLE_GRAPH) != 0;
  if (tally.agreed == 0 && nothing_less)
    return t.require(false, "the plugin takes whole graphs only, and none of these: ", tally.lack());
  return t.needs(tally.agreed > 0, tag, tally.lack());
}

Status long_graphs(Context& t, const GroupForm& form, const char* tag) {
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_kernels(t, device));
  GroupForm known = form;
  known.known = TN_TRY(Vocabulary::of(t, device));
  return whole_graphs(t, tag, [&](Choices& choices, uint64_t budget) -> std::optional<Group> {
    return draw_group(known, budget / 16, choices);
  });
}

}  // namespace

CONFORM_CASE(4, "graph: a step of training, forward, backward and updates, is one fragment", .deadlines = 3) {
  return whole_graphs(t, "graph.training", draw_training_step);
}

CONFORM_CASE(4, "graph: a network for images is one fragment", .deadlines = 3) {
  return whole_graphs(t, "graph.images", draw_image_network);
}

CONFORM_CASE(4, "graph: a block of a decoder is one fragment", .deadlines = 3) {
  return whole_graphs(t, "graph.decoder", draw_decoder_block);
}

CONFORM_CASE(4, "graph: many nodes are one fragment", .deadlines = 3) {
  return long_graphs(t, {.least_nodes = 48, .most_nodes = 96, .broadcast = true, .several = true},
                     "graph.long");
}

CONFORM_CASE(4, "graph: many nodes of several types, with constants and reductions, are one fragment",
             .deadlines = 3) {
  return long_graphs(t,
                     {.least_nodes = 48,
                      .most_nodes = 96,
                      .mixed = true,
                      .broadcast = true,
                      .constants = true,
                      .reductions = true,
                      .several = true},
                     "graph.long.mixed");
}

}  // namespace tenon::conform
