// SPDX-License-Identifier: Apache-2.0
// arrival.cpp: updates in parts, so that one can run while the sums that the next one needs are on their way.
//
// One launch for all updates is the shortest, and waits for the last sum. k launches of as many bytes each cost k launches, and leave a
// k-th of the work behind the last sum: together the least at k = √(work / launch).
// Invariant: updates that need the same sums stay together, so what has to wait for all sums is never cut.
#include "fusion/scheduler.hpp"
#include "passes/rewriter.hpp"

#include <algorithm>
#include <cmath>

namespace tenon::fusion {
namespace {

constexpr double most_parts = 8;  // seven eighths of the work are under way by then

}  // namespace

// For each node the last of those whose results are summed before it can run, counted from 1; 0: it needs no sum.
std::vector<uint32_t> Scheduler::arrivals() const {
  std::vector<uint32_t> out(graph_.nodes().size());
  const auto producer = [&](uint32_t value) {
    return value == TN_ABSENT ? TN_ABSENT : graph_.values()[value].producer;
  };
  for (uint32_t node = 0; node < out.size(); ++node) {
    const Graph::Node& told = graph_.nodes()[node];
    for (const uint32_t value : told.inputs) {
      if (producer(value) != TN_ABSENT) out[node] = std::max(out[node], out[producer(value)]);
    }
    const bool sums = told.op == Op::all_reduce && std::get<int64_t>(passes::attribute(told, "comm")) == 0;
    if (sums && producer(told.inputs[0]) != TN_ABSENT) out[node] = producer(told.inputs[0]) + 1;
  }
  return out;
}

// The part of the first to arrive first; each ascending.
std::vector<std::vector<uint32_t>> Scheduler::by_arrival(std::vector<uint32_t> updates) {
  if (!options_.updates_by_arrival) return {std::move(updates)};
  const double launch = std::max(target_.launch_ns, 1.0);
  const double work = static_cast<double>(judge_.costs().traffic(updates).bytes) / target_.bytes_per_ns;
  const double parts = std::clamp(std::floor(std::sqrt(work / launch)), 1.0, most_parts);
  const std::vector<uint32_t> arrival = arrivals();
  std::stable_sort(updates.begin(), updates.end(),
                   [&](uint32_t a, uint32_t b) { return arrival[a] < arrival[b]; });
  const auto bytes = [&](uint32_t node) {
    return static_cast<double>(judge_.costs().traffic({&node, 1}).bytes);
  };
  double all = 0, sent = 0;
  for (const uint32_t node : updates) all += bytes(node);
  std::vector<std::vector<uint32_t>> out(1);
  for (const uint32_t node : updates) {
    std::vector<uint32_t>& open = out.back();
    const bool full = sent * parts >= all * static_cast<double>(out.size());
    if (!open.empty() && full && arrival[open.back()] != arrival[node]) out.emplace_back();
    out.back().push_back(node);
    sent += bytes(node);
  }
  for (std::vector<uint32_t>& part : out) std::sort(part.begin(), part.end());
  return out;
}

}  // namespace tenon::fusion
