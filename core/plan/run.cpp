// SPDX-License-Identifier: Apache-2.0
// run.cpp: one run of a plan, and the plan in words.
#include "base/text.hpp"
#include "fusion/names.hpp"
#include "plan/state.hpp"

#include <map>

namespace tenon {
namespace {

using State = Plan::State;

Status bad(const State& state, const std::string& text) {
  const std::string& name = state.graph.name();
  return Status(TN_INVALID, (name.empty() ? std::string("plan") : "plan of '" + name + "'") + ": " + text);
}

// The caller's spans in the plan's order.
Result<std::vector<tn_span>> in_order(const State& state, std::span<const Binding> bindings) {
  std::vector<tn_span> spans(state.bound.size());
  std::vector<bool> given(state.bound.size());
  for (const Binding& binding : bindings) {
    const auto found = state.names.find(std::string(binding.name));
    if (found == state.names.end()) {
      std::vector<std::string_view> names;
      for (const State::Bound& bound : state.bound) names.push_back(bound.name);
      return bad(state,
                 "nothing is called " + base::quoted(binding.name) + base::did_you_mean(binding.name, names));
    }
    const State::Bound& bound = state.bound[found->second];
    if (given[found->second]) return bad(state, "'" + bound.name + "' is bound twice");
    if (binding.span.bytes != bound.bytes)
      return bad(state, "'" + bound.name + "' has " + std::to_string(bound.bytes) +
                            " bytes, it is bound to " + std::to_string(binding.span.bytes));
    given[found->second] = true;
    spans[found->second] = binding.span;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) return bad(state, "'" + state.bound[i].name + "' is not bound");
  }
  return spans;
}

}  // namespace

Status Plan::run(Stream& stream, std::span<const Binding> bindings, Timeline timeline) const {
  if (!state_->exchanges.empty() || !state_->sums.empty()) {
    const uint32_t sum = state_->sums.empty() ? state_->exchanges.front().sum : state_->sums.front().sum;
    return bad(*state_, "it sums over ranks (" + base::quoted(state_->graph.values()[sum].name, 64) +
                            "): run it by an Executor");
  }
  const std::vector<tn_span> bound = TN_TRY(in_order(*state_, bindings));
  Device device = state_->device;
  const Buffer memory = TN_TRY(device.allocate(stream, state_->block_bytes));
  const tn_span block = memory.span();
  std::vector<tn_span> spans(state_->most_slots);
  for (const State::Launch& launch : state_->launches) {
    if (!launch.kernel) continue;
    for (size_t i = 0; i < launch.slots.size(); ++i) {
      const State::Slot& slot = launch.slots[i];
      spans[i] = slot.bound != State::in_block ? bound[slot.bound] : slot.in(block);
    }
    const tn_span workspace = launch.workspace.bytes == 0 ? tn_span{} : launch.workspace.in(block);
    TN_TRY(timeline.measure(stream, {.kind = launch.kind, .name = launch.name, .bytes = launch.bytes}, [&] {
      return launch.kernel.launch(stream, std::span(spans).first(launch.slots.size()), workspace);
    }));
  }
  return {};
}

Status Plan::run(Stream& stream, std::initializer_list<Binding> bindings, Timeline timeline) const {
  return run(stream, std::span(bindings.begin(), bindings.size()), std::move(timeline));
}

std::string Plan::explain() const {
  std::vector<std::string> by;
  for (const State::Launch& launch : state_->launches)
    by.push_back(launch.kernel ? launch.kernel.engine() : "");
  std::string out = fusion::explain(state_->graph, state_->target, state_->cut, by);
  for (const std::string& recut : state_->recuts) out += "recut    " + recut + '\n';
  if (!state_->exchanges.empty())
    out += "exchange " + base::counted(state_->exchanges.size(), "all_reduce") + " before launch " +
           std::to_string(state_->first_late) + " of " + std::to_string(state_->launches.size()) + '\n';
  if (!state_->sums.empty())
    out += "sum      " + base::counted(state_->sums.size(), "all_reduce") + " between launches, in place\n";
  std::map<std::string, size_t> engines;
  for (const std::string& engine : by) engines[engine] += engine.empty() ? 0 : 1;
  engines.erase("");
  for (const auto& [engine, count] : engines)
    out += "engine   " + engine + ": " + std::to_string(count) + (count == 1 ? " launch\n" : " launches\n");
  if (state_->views > 0)
    out += "views    " + base::counted(state_->views, "reshape") +
           " without a launch: what they give is where it was\n";
  if (state_->in_place + state_->renewals.size() + state_->apart.size() > 0) {
    out += "in place " + std::to_string(state_->in_place) + " between launches, " +
           std::to_string(state_->renewals.size()) + " of parameters, " +
           std::to_string(state_->apart.size()) + " not\n";
  }
  for (const std::string& apart : state_->apart) out += "apart    " + apart + '\n';
  out += "memory   " + std::to_string(state_->block_bytes) + " bytes between launches, " +
         std::to_string(state_->bytes_without_reuse) + " without reuse\n";
  return out;
}

const FusionCut& Plan::cut() const noexcept { return state_->cut; }
const Graph& Plan::graph() const noexcept { return state_->graph; }
std::span<const Plan::Renewal> Plan::renewals() const noexcept { return state_->renewals; }
uint64_t Plan::memory_bytes() const noexcept { return state_->block_bytes; }
uint64_t Plan::memory_bytes_without_reuse() const noexcept { return state_->bytes_without_reuse; }

}  // namespace tenon
