// SPDX-License-Identifier: Apache-2.0
// in_place.cpp: results written over inputs that nobody reads any more.
//
// Invariant: nodes and their order stay as they are; each output lives in one input's memory at most, in every order if it can.
#include "base/text.hpp"
#include "passes/rewriter.hpp"
#include "passes/storage.hpp"

#include <optional>

namespace tenon::passes {
namespace {

struct Tried {
  Pair pair;
  Taken taken;
};

// The first pair that may be in every order, or else the first that may be in some, or else the first that may not.
std::optional<Tried> take(uint32_t node, uint32_t output, const Graph::Node& told, Storage& storage) {
  std::optional<Tried> first, late;
  for (const Pair& pair : pairs_of(told)) {
    const bool there = pair.input < told.inputs.size() && told.inputs[pair.input] != TN_ABSENT;
    if (!there || pair.output != output) continue;
    const Tried tried{pair, storage.take(node, pair)};
    if (tried.taken) return tried;
    if (!first) first = tried;
    if (!late && tried.taken.late != TN_ABSENT) late = tried;
  }
  return late ? Tried{late->pair, storage.take(node, late->pair, true)} : first;
}

// A place for each output that is there and has none yet.
void place(uint32_t node, Rewritten& work, Storage& storage) {
  const Graph& graph = work.graph;
  const Graph::Node& told = graph.nodes()[node];
  for (uint32_t output = 0; output < told.outputs.size(); ++output) {
    if (told.outputs[output] == TN_ABSENT || storage.is_taken(node, output)) continue;
    const std::optional<Tried> tried = take(node, output, told, storage);
    if (!tried) continue;
    const auto& [pair, taken] = *tried;
    const std::string over = base::quoted(graph.values()[told.inputs[pair.input]].name, 64);
    std::string why = taken.why_not;
    if (taken)
      why = taken.late == TN_ABSENT ? "it is read for the last time"
                                    : "if " + base::quoted(called(graph, graph.nodes()[taken.late]), 64) +
                                          ", which reads it too, comes before";
    work.notes.push_back({"in_place", graph.values()[told.outputs[output]].name,
                          std::string(name(told.op)) + " over " + over, std::move(why), bool(taken)});
  }
}

}  // namespace

Result<Rewritten> in_place(Rewritten work, const InPlaceOptions& options) {
  TN_TRY(work.graph.check());
  const size_t notes_before = work.notes.size();
  Storage storage(work, options.params);
  for (uint32_t i = 0; i < work.graph.nodes().size(); ++i) place(i, work, storage);
  if (work.notes.size() == notes_before)
    work.notes.push_back({"in_place", "", "results over inputs", "no node is of a kind that can", false});
  return work;
}

}  // namespace tenon::passes
