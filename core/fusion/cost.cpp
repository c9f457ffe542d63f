// SPDX-License-Identifier: Apache-2.0
// cost.cpp: the cost model.
#include "fusion/cost.hpp"

#include <algorithm>

namespace tenon::fusion {
namespace {

// Values that a kernel keeps beside each other without spilling; each further one is written and read again once.
constexpr uint32_t registers = 24;
// One elementwise op on one element that is in a register.
constexpr double op_ns = 0.05;
constexpr double growth_weight = 0.01;

}  // namespace

CostModel::CostModel(const Graph& graph, const FusionTarget& target)
    : graph_(graph),
      target_(target),
      is_output_(graph.values().size()),
      bytes_(graph.values().size()),
      stamp_(graph.nodes().size()),
      seen_(graph.values().size()) {
  for (const Graph::Output& output : graph.outputs()) is_output_[output.value] = true;
  for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = graph.values()[i].spec.bytes();
}

bool CostModel::is_view(uint32_t node) const noexcept {
  const Graph::Node& told = graph_.nodes()[node];
  if (told.op != Op::reshape) return false;
  const uint32_t from = told.inputs.front(), to = told.outputs.front();
  return graph_.values()[from].role == Graph::Role::computed && !is_output_[from] && !is_output_[to];
}

bool CostModel::leaves(uint32_t value) const noexcept {
  const std::vector<uint32_t>& users = graph_.values()[value].users;
  return is_output_[value] ||
         std::any_of(users.begin(), users.end(), [&](uint32_t user) { return !inside(user); });
}

uint32_t CostModel::end_of(uint32_t value) const noexcept {
  const Graph::ValueInfo& info = graph_.values()[value];
  if (is_output_[value] || info.role != Graph::Role::computed || info.users.empty()) return TN_ABSENT;
  return inside(info.users.back()) ? info.users.back() : TN_ABSENT;
}

Traffic CostModel::traffic(std::span<const uint32_t> nodes) {
  Traffic out;
  ++now_;
  for (const uint32_t node : nodes) stamp_[node] = now_;
  const auto cross = [&](uint32_t value) {
    out.bytes += bytes_[value];
    ++out.bindings;
  };
  for (const uint32_t node : nodes) {
    for (const uint32_t value : graph_.nodes()[node].inputs) {
      if (value == TN_ABSENT || seen_[value] == now_ || inside(graph_.values()[value].producer)) continue;
      seen_[value] = now_;
      cross(value);
    }
    for (const uint32_t value : graph_.nodes()[node].outputs) {
      if (value != TN_ABSENT && leaves(value)) cross(value);
    }
  }
  if (nodes.size() > 1) add_lives(nodes, out);
  return out;
}

// Walks the nodes as they would run one by one, and counts what is alive.
void CostModel::add_lives(std::span<const uint32_t> nodes, Traffic& traffic) {
  std::vector<std::pair<uint32_t, uint32_t>> ends;  // node, value
  for (const uint32_t node : nodes) {
    for (const auto* list : {&graph_.nodes()[node].inputs, &graph_.nodes()[node].outputs}) {
      for (const uint32_t value : *list) {
        if (value != TN_ABSENT && end_of(value) != TN_ABSENT) ends.emplace_back(end_of(value), value);
      }
    }
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  uint64_t from_outside = traffic.bytes, freed = 0;
  uint64_t alive = 0, peak = 0, largest = 0;
  uint32_t values = 0, most_values = 0;
  for (const uint32_t node : nodes) {
    for (const uint32_t value : graph_.nodes()[node].outputs) {
      if (value != TN_ABSENT && leaves(value)) from_outside -= bytes_[value];
    }
  }
  size_t next = 0;
  for (const uint32_t node : nodes) {
    for (const uint32_t value : graph_.nodes()[node].outputs) {
      if (value == TN_ABSENT) continue;
      alive += bytes_[value];
      ++values;
      largest = std::max(largest, leaves(value) ? 0 : bytes_[value]);
    }
    peak = std::max(peak, from_outside + alive - freed);
    most_values = std::max(most_values, values);
    for (; next < ends.size() && ends[next].first == node; ++next) {
      freed += bytes_[ends[next].second];
      values -= inside(graph_.values()[ends[next].second].producer) ? 1 : 0;
    }
  }
  traffic.growth = traffic.bytes > peak ? traffic.bytes - peak : 0;
  if (most_values > registers) traffic.spilled = 2 * largest * (most_values - registers);
}

double CostModel::cost_ns(const Traffic& traffic) const noexcept {
  const double bytes = static_cast<double>(traffic.bytes + traffic.spilled) +
                       static_cast<double>(traffic.growth) * growth_weight;
  return target_.launch_ns + bytes / target_.bytes_per_ns;
}

double CostModel::recomputation_ns(uint64_t elements_now, uint64_t elements_then,
                                   size_t nodes) const noexcept {
  if (elements_then <= elements_now) return 0;
  return static_cast<double>(elements_then - elements_now) * static_cast<double>(nodes) * op_ns;
}

}  // namespace tenon::fusion
