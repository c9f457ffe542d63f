// SPDX-License-Identifier: Apache-2.0
// grow.cpp: groups grown over elementwise nodes, broadcasts and reduction tails, then shown to the device.
//
// Each node, in run order, joins the groups that make what it reads, the largest value first.
#include "fusion/names.hpp"
#include "fusion/scheduler.hpp"
#include "graph/columns.hpp"
#include "graph/words.hpp"

#include <algorithm>

namespace tenon::fusion {
namespace {

// How many groups between two are looked at for a path, before they are left apart.
constexpr uint32_t neighbourhood = 512;

std::vector<int64_t> without_leading_ones(const std::vector<int64_t>& dims) {
  const auto first = std::find_if(dims.begin(), dims.end(), [](int64_t dim) { return dim != 1; });
  return {first, dims.end()};
}

std::vector<int64_t> axes_of(const Graph::Node& node) {
  for (const Attribute& attribute : node.attributes) {
    if (attribute.name == "axes") return std::get<std::vector<int64_t>>(attribute.value);
  }
  return {};
}

}  // namespace

Kind kind_of(Op op) noexcept {
  using graph::Family;
  if (op == Op::broadcast_to || op == Op::constant || op == Op::dropout) return Kind::elementwise;
  switch (graph::columns_of(op).family) {
    case Family::UNARY:
    case Family::BINARY:
    case Family::TERNARY:
      return Kind::elementwise;
    case Family::REDUCTION:
      return Kind::reduction;
    default:
      return Kind::other;
  }
}

Scheduler::Space Scheduler::space_of(uint32_t node) const {
  const Graph::Node& told = graph_.nodes()[node];
  const bool reduces = kind_of(told.op) == Kind::reduction;
  const TensorSpec& spec = graph_.values()[reduces ? told.inputs.front() : told.outputs.front()].spec;
  Space space{.dims = without_leading_ones(spec.dims), .elements = spec.elements()};
  if (!reduces) return space;
  space.reduction = node;
  space.axes = axes_of(told);
  for (int64_t& axis : space.axes)
    axis -= static_cast<int64_t>(spec.dims.size());  // counted from the last dim
  return space;
}

bool Scheduler::may_grow(uint32_t node) const {
  const bool is_there = state_[node] == Node::free || state_[node] == Node::alone;
  return is_there && kind_of(graph_.nodes()[node].op) != Kind::other;
}

void Scheduler::grow() {
  for (uint32_t node = 0; node < graph_.nodes().size(); ++node) {
    const Graph::Node& told = graph_.nodes()[node];
    if (!may_grow(node)) continue;
    spaces_[node] = space_of(node);
    std::vector<uint32_t> sources;
    for (const uint32_t value : told.inputs) {
      const uint32_t producer = value == TN_ABSENT ? TN_ABSENT : graph_.values()[value].producer;
      if (producer != TN_ABSENT && may_grow(producer)) sources.push_back(value);
    }
    std::stable_sort(sources.begin(), sources.end(), [&](uint32_t a, uint32_t b) {
      return graph_.values()[a].spec.elements() > graph_.values()[b].spec.elements();
    });
    for (const uint32_t value : sources) try_join(graph_.values()[value].producer, node);
  }
}

void Scheduler::try_join(uint32_t producer, uint32_t consumer) {
  const uint32_t a = contraction_.group_of(producer), b = contraction_.group_of(consumer);
  if (a == b) return;
  std::string reason = why_apart(producer, consumer);
  if (state_[producer] == Node::alone || state_[consumer] == Node::alone) {
    if (reason.empty()) leave_alone(producer, consumer);
    return;
  }
  if (reason.empty()) {
    const uint32_t both[] = {a, b};
    const Contraction::Outcome outcome = contraction_.join(both, neighbourhood);
    if (outcome.done) {
      const uint32_t joined = std::min(a, b);
      Space space = spaces_[a].elements > spaces_[b].elements ? spaces_[a] : spaces_[b];
      const Space& with = spaces_[a].reduction != TN_ABSENT ? spaces_[a] : spaces_[b];
      space.axes = with.axes;
      space.reduction = with.reduction;
      spaces_[joined] = std::move(space);
      rule_[joined] = "elementwise";
      return;
    }
    reason = path_in_words(outcome);
  }
  apart_.emplace(std::pair(producer, consumer), std::move(reason));
}

// One refusal for each node that never_fuse names: where it would have been joined first.
void Scheduler::leave_alone(uint32_t producer, uint32_t consumer) {
  for (const uint32_t node : {producer, consumer}) {
    if (state_[node] != Node::alone || left_alone_[node]) continue;
    left_alone_[node] = true;
    refuse({producer, consumer}, "elementwise", "never_fuse names " + called(graph_, node));
  }
}

// The predicate that keeps the groups of two nodes apart, with its values; "" when there is none.
std::string Scheduler::why_apart(uint32_t producer, uint32_t consumer) {
  const uint32_t a = contraction_.group_of(producer), b = contraction_.group_of(consumer);
  if (kind_of(graph_.nodes()[producer].op) == Kind::reduction)
    return called(graph_, producer) + " is known only when all of its input was read";
  const size_t count = contraction_.nodes_of(a).size() + contraction_.nodes_of(b).size();
  if (count > options_.max_nodes)
    return "together they are " + std::to_string(count) + " nodes, and max_nodes is " +
           std::to_string(options_.max_nodes);
  if (std::string reason = why_other_space(a, b, consumer); !reason.empty()) return reason;
  const Space &of_a = spaces_[a], &of_b = spaces_[b];
  if (of_a.reduction != TN_ABSENT && of_b.reduction != TN_ABSENT && of_a.axes != of_b.axes)
    return called(graph_, of_a.reduction) + " and " + called(graph_, of_b.reduction) +
           " reduce over different axes";
  if (target_.max_bindings == 0) return "";
  std::vector<uint32_t> nodes(contraction_.nodes_of(a).begin(), contraction_.nodes_of(a).end());
  nodes.insert(nodes.end(), contraction_.nodes_of(b).begin(), contraction_.nodes_of(b).end());
  std::sort(nodes.begin(), nodes.end());
  const uint32_t bindings = judge_.costs().traffic(nodes).bindings;
  if (bindings <= target_.max_bindings) return "";
  return "together they have " + std::to_string(bindings) + " inputs and outputs, and " + target_.device +
         " takes " + std::to_string(target_.max_bindings);
}

// A small value inside a wide group is computed for every element of the wide one, and cannot leave it.
std::string Scheduler::why_other_space(uint32_t a, uint32_t b, uint32_t consumer) {
  const Space &small = spaces_[a], &wide = spaces_[b];
  if (small.dims == wide.dims) return "";
  const std::string shapes = graph::words(small.dims) + " and " + graph::words(wide.dims);
  if (small.elements >= wide.elements) return "they run over different elements, " + shapes;
  if (small.reduction != TN_ABSENT)
    return called(graph_, small.reduction) + " runs over " + graph::words(small.dims) + ", the rest over " +
           graph::words(wide.dims);
  uint64_t saved = 0;
  for (const uint32_t node : contraction_.nodes_of(a)) {
    for (const uint32_t value : graph_.nodes()[node].outputs) {
      const Graph::ValueInfo& info = graph_.values()[value];
      const bool leaves =
          is_output_[value] || std::any_of(info.users.begin(), info.users.end(), [&](uint32_t user) {
            return contraction_.group_of(user) != a && contraction_.group_of(user) != b;
          });
      if (leaves)
        return "'" + info.name + "' is " + graph::words(small.dims) + " in a group over " +
               graph::words(wide.dims) + ", and others than " + called(graph_, consumer) + " need it";
      saved += info.spec.bytes();
    }
  }
  const double gain = target_.launch_ns + 2 * static_cast<double>(saved) / target_.bytes_per_ns;
  const double price =
      judge_.costs().recomputation_ns(small.elements, wide.elements, contraction_.nodes_of(a).size());
  if (price <= gain) return "";
  char text[160];
  std::snprintf(text, sizeof text,
                "computing %s again for each element of %s takes %.1f µs more and saves %.1f µs",
                graph::words(small.dims).c_str(), graph::words(wide.dims).c_str(), price / 1000, gain / 1000);
  return text;
}

Status Scheduler::settle() {
  for (uint32_t group = 0; group < rule_.size(); ++group) {
    if (rule_[group] == "elementwise" && contraction_.nodes_of(group).size() > 1) TN_TRY(settle(group));
  }
  return {};
}

// Cuts what the device does not run as one into the longest pieces that it does.
Status Scheduler::settle(uint32_t group) {
  while (contraction_.nodes_of(group).size() > 1) {
    const std::vector<uint32_t> nodes(contraction_.nodes_of(group).begin(),
                                      contraction_.nodes_of(group).end());
    const Opinion opinion = TN_TRY(judge_.ask(nodes));
    rule_[group] = "elementwise";
    if (opinion.is_one() && opinion.gain_ns() > options_.min_gain_ns) return {};
    size_t kept = 1;
    if (opinion.is_one()) {
      char text[96];
      std::snprintf(text, sizeof text, "no gain: together %.1f µs are predicted, one by one %.1f µs",
                    opinion.cost_ns / 1000, opinion.alone_ns / 1000);
      refuse(nodes, "elementwise", text, opinion.gain_ns());
    } else {
      refuse(nodes, "elementwise", target_.device + ": " + opinion.support.reason, opinion.gain_ns());
      kept = TN_TRY(longest_prefix(nodes));
    }
    group = contraction_.split(group, kept);
  }
  return {};
}

// How many of the nodes, from the first on, the device runs as one; by halving, so it is taken that what is too much stays
// too much with more.
Result<size_t> Scheduler::longest_prefix(std::span<const uint32_t> nodes) {
  size_t good = 1, bad = nodes.size();
  while (bad - good > 1) {
    const size_t middle = good + (bad - good) / 2;
    const Opinion opinion = TN_TRY(judge_.ask(nodes.first(middle)));
    (opinion.is_one() && opinion.gain_ns() > options_.min_gain_ns ? good : bad) = middle;
  }
  return good;
}

}  // namespace tenon::fusion
