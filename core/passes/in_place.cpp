// SPDX-License-Identifier: Apache-2.0
// in_place.cpp: results written over inputs that nobody reads any more.
//
// Invariant: nodes and their order stay as they are; each output lives in one input's memory at most.
#include "base/text.hpp"
#include "passes/rewriter.hpp"
#include "passes/storage.hpp"

namespace tenon::passes {
namespace {

// The first pair that may be, for each output that is there and has no place yet.
void place(uint32_t node, Rewritten& work, Storage& storage) {
  const Graph::Node& told = work.graph.nodes()[node];
  const auto name_of = [&](uint32_t value) { return base::quoted(work.graph.values()[value].name, 64); };
  for (uint32_t output = 0; output < told.outputs.size(); ++output) {
    if (told.outputs[output] == TN_ABSENT || storage.is_taken(node, output)) continue;
    const std::string& where = work.graph.values()[told.outputs[output]].name;
    const std::string what = std::string(name(told.op)) + " over ";
    std::string first_why, first_over;
    bool done = false;
    for (const Pair& pair : pairs_of(told)) {
      const bool there = pair.input < told.inputs.size() && told.inputs[pair.input] != TN_ABSENT;
      if (done || !there || pair.output != output) continue;
      const std::string over = name_of(told.inputs[pair.input]), why = storage.take(node, pair);
      done = why.empty();
      if (done) work.notes.push_back({"in_place", where, what + over, "it is read for the last time", true});
      if (first_why.empty()) first_why = why, first_over = over;
    }
    if (!done && !first_why.empty())
      work.notes.push_back({"in_place", where, what + first_over, first_why, false});
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
