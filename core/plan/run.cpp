// SPDX-License-Identifier: Apache-2.0
// run.cpp: one run of a plan, and the plan in words.
#include "base/text.hpp"
#include "fusion/names.hpp"
#include "plan/state.hpp"
#include "runtime/device_state.hpp"
#include "runtime/stage.hpp"
#include "runtime/timeline.hpp"

#include <algorithm>
#include <map>
#include <tuple>

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
    if (binding.dtype != DType{} && binding.dtype != bound.dtype)
      return bad(state, "'" + bound.name + "' is " + std::string(name(bound.dtype)) +
                            ", and its numbers here are " + std::string(name(binding.dtype)));
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

bool is_same(const tn_span& a, const tn_span& b) noexcept {
  return a.space == b.space && a.memory == b.memory && a.offset == b.offset && a.bytes == b.bytes;
}

// An output overlaps nothing, but a renewed parameter's the very parameter. In the order of memory, each span is held against
// the one that reaches furthest before it, and against the output that does.
Status check_apart(const State& state, const std::vector<tn_span>& spans) {
  std::vector<uint32_t> order;
  std::vector<bool> is_written(spans.size());
  for (uint32_t i = 0; i < spans.size(); ++i) {
    const uint32_t param = state.bound[i].renews;
    const bool is_over = param != TN_ABSENT && is_same(spans[i], spans[param]);
    is_written[is_over ? param : i] = is_over || state.bound[i].is_output || is_written[i];
    if (!is_over && spans[i].bytes > 0) order.push_back(i);
  }
  const auto place = [&](uint32_t i) {
    const tn_span& span = spans[i];
    return std::tuple(span.space, reinterpret_cast<uintptr_t>(span.memory), span.offset);
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return place(a) < place(b); });
  uint32_t furthest = TN_ABSENT, furthest_written = TN_ABSENT;
  const auto meets = [&](uint32_t before, uint32_t i) {
    return before != TN_ABSENT && spans[before].space == spans[i].space &&
           spans[before].memory == spans[i].memory &&
           spans[i].offset < spans[before].offset + spans[before].bytes;
  };
  const auto further = [&](uint32_t before, uint32_t i) {
    return meets(before, i) && spans[before].offset + spans[before].bytes > spans[i].offset + spans[i].bytes
               ? before
               : i;
  };
  for (const uint32_t i : order) {
    const uint32_t other = is_written[i] ? furthest : furthest_written;
    if (meets(other, i))
      return bad(state,
                 "'" + state.bound[i].name + "' and '" + state.bound[other].name +
                     "' are bound to memory that overlaps, and one of them is written: give each output a "
                     "place of its own");
    furthest = further(furthest, i);
    if (is_written[i]) furthest_written = further(furthest_written, i);
  }
  return {};
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
  const runtime::Timeline& line = runtime::timeline_of(stream);
  if (line.device != device.state())
    return bad(*state_, "it was made for device '" + device.name() + "', and stream '" + line.name +
                            "' is of device '" + line.device->name + "'");
  for (size_t i = 0; i < bound.size() && runtime::several_devices(); ++i)
    TN_TRY(runtime::check_home(line, bound[i], "plan: '" + state_->bound[i].name + "'"));
  TN_TRY(check_apart(*state_, bound));
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
