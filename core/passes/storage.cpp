// SPDX-License-Identifier: Apache-2.0
// storage.cpp: see storage.hpp.
#include "passes/storage.hpp"

#include "base/text.hpp"
#include "graph/columns.hpp"
#include "passes/optimizer.hpp"
#include "passes/rewriter.hpp"

#include <algorithm>

namespace tenon::passes {
namespace {

using graph::Family;

std::vector<Pair> optimizer_pairs(const Graph::Node& node) {
  const OptimizerSlots slots = optimizer_slots(node.op);
  std::vector<Pair> out{{0, 0, true}};
  for (uint32_t i = 0; i < slots.states; ++i) out.push_back({1 + i, 2 + i, true});
  const auto master_output = static_cast<uint32_t>(slots.master_output);
  out.push_back({master_output, static_cast<uint32_t>(slots.master_input), true});
  if (node.op == Op::sgd) out.push_back({2, 1});
  return out;
}

std::vector<Pair> scaling_pairs(const Graph::Node& node) {
  std::vector<Pair> out;
  const bool update = node.op == Op::update_loss_scaling;
  for (uint32_t i = update ? 0 : 1; i < node.outputs.size(); ++i)
    out.push_back({i, update ? i + 1 : i, update});
  return out;
}

}  // namespace

std::vector<Pair> pairs_of(const Graph::Node& node) {
  switch (graph::columns_of(node.op).family) {
    case Family::UNARY:
      return {{0, 0}};
    case Family::BINARY:
      return {{0, 0}, {0, 1}};
    case Family::TERNARY:
      return {{0, 0}, {0, 1}, {0, 2}};
    case Family::OPTIMIZER:
      return optimizer_pairs(node);
    case Family::SCALING:
      return scaling_pairs(node);
    default:
      break;
  }
  switch (node.op) {
    case Op::batch_norm_train:
      return {{3, 3, true}, {4, 4, true}};
    case Op::advance:
      return {{0, 0, true}};
    case Op::batch_norm_grad_apply:
      return {{0, 0}, {0, 1}};
    case Op::batch_norm_infer:
    case Op::batch_norm_apply:
    case Op::dropout:
    case Op::reshape:
    case Op::all_reduce:
    case Op::broadcast:
      return {{0, 0}};
    default:
      return {};
  }
}

Storage::Storage(Rewritten& work, bool params)
    : work_(work),
      g_(work.graph),
      params_(params),
      is_output_(g_.values().size()),
      placements_(g_.values().size()),
      visited_(g_.nodes().size()) {
  for (const Graph::Output& output : g_.outputs()) is_output_[output.value] = true;
  for (const Placement& placement : work.placements) placements_[placement.value] = &placement;
  for (const Alias& alias : work.aliases) taken_.emplace(alias.node, alias);
}

bool Storage::is_taken(uint32_t node, uint32_t output) const {
  const auto [first, last] = taken_.equal_range(node);
  return std::any_of(first, last, [&](const auto& entry) { return entry.second.output == output; });
}

Taken Storage::take(uint32_t node, const Pair& pair, bool by_order) {
  std::string why = why_not(node, pair);
  if (!why.empty()) return {.why_not = std::move(why)};
  const Graph::ValueInfo& over = g_.values()[g_.nodes()[node].inputs[pair.input]];
  const uint32_t late = straggler(over.users, node);
  if (late != TN_ABSENT && !by_order)
    return {.why_not = base::quoted(called(g_, g_.nodes()[late]), 64) + " reads " +
                       base::quoted(over.name, 64) + " too and may come later",
            .late = late};
  work_.aliases.push_back({node, pair.output, pair.input, late != TN_ABSENT});
  taken_.emplace(node, work_.aliases.back());
  return {.late = late};
}

bool Storage::same_place(uint32_t a, uint32_t b) const {
  const Placement *one = placements_[a], *other = placements_[b];
  if (one == nullptr || other == nullptr) return one == other;
  return one->strides == other->strides && one->layout == other->layout;
}

std::string Storage::why_not_leaf(uint32_t node, const Pair& pair) const {
  const Graph::ValueInfo& info = g_.values()[g_.nodes()[node].inputs[pair.input]];
  const std::string called = base::quoted(info.name, 64);
  if (info.role == Graph::Role::constant) return called + " is a constant";
  if (info.role == Graph::Role::input) return called + " is an input, which belongs to the caller";
  if (!pair.updates) return called + " is a parameter, and this is not its update";
  if (!params_) return called + " is a parameter, and params is off";
  if (!is_output_[g_.nodes()[node].outputs[pair.output]])
    return "the new " + called + " is no output, so the old one stays";
  return info.spec.strides.empty() ? "" : called + " is not dense";
}

std::string Storage::why_not(uint32_t node, const Pair& pair) const {
  const Graph::Node& told = g_.nodes()[node];
  const uint32_t in = told.inputs[pair.input], out = told.outputs[pair.output];
  const Graph::ValueInfo &from = g_.values()[in], &to = g_.values()[out];
  const std::string called = base::quoted(from.name, 64);
  const bool fits = told.op == Op::reshape ? placements_[in] == nullptr && placements_[out] == nullptr
                                           : from.spec.dims == to.spec.dims && same_place(in, out);
  if (from.spec.dtype != to.spec.dtype || !fits)
    return called + " has another type or shape, or lies otherwise";
  if (is_output_[in]) return called + " is an output, which has to last";
  const auto [first, last] = taken_.equal_range(node);
  if (std::any_of(first, last, [&](const auto& entry) { return told.inputs[entry.second.input] == in; }))
    return called + " is overwritten by another output already";
  return from.role == Graph::Role::computed ? "" : why_not_leaf(node, pair);
}

// One search back from the node, no further than the first reader.
uint32_t Storage::straggler(const std::vector<uint32_t>& readers, uint32_t node) {
  uint32_t lowest = node;
  for (const uint32_t reader : readers) {
    if (reader > node) return reader;
    lowest = std::min(lowest, reader);
  }
  ++search_;
  visited_[node] = search_;
  open_.assign(lowest < node ? 1 : 0, node);
  while (!open_.empty()) {
    const uint32_t at = open_.back();
    open_.pop_back();
    for (const uint32_t index : g_.nodes()[at].inputs) {
      const uint32_t producer = index == TN_ABSENT ? TN_ABSENT : g_.values()[index].producer;
      if (producer == TN_ABSENT || producer < lowest || visited_[producer] == search_) continue;
      visited_[producer] = search_;
      open_.push_back(producer);
    }
  }
  const auto missed = std::find_if(readers.begin(), readers.end(),
                                   [&](uint32_t reader) { return visited_[reader] != search_; });
  return missed == readers.end() ? TN_ABSENT : *missed;
}

}  // namespace tenon::passes
