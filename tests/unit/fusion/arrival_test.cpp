// SPDX-License-Identifier: Apache-2.0
// Updates in parts: those whose gradients are sent first first, as many as pay, and never where all wait for the same sums.
#include "unit/fusion/graphs.hpp"

#include <numeric>

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr int64_t each = 1 << 20;  // elements: an update moves 12 MiB

// Updates of gradients that are sent the last one first; with `norm` all are made shorter by the length of all.
Graph ranked_updates(uint32_t count, bool norm = false) {
  Graph g;
  g.communicator(0, 2);
  const auto lr = g.input("lr", {f32, {}}), x = g.input("x", {f32, {each}});
  std::vector<GraphValue> gradients(count);
  for (uint32_t i = count; i-- > 0;) gradients[i] = g.exp(x);
  GraphValue length{};
  for (GraphValue& gradient : gradients) {
    gradient = g.all_reduce(gradient, {{"comm", int64_t{0}}, {"reduce", std::string("sum")}});
    if (!norm) continue;
    const auto squares = g.sum(g.square(gradient), {0});
    length = length.index == TN_ABSENT ? squares : g.add(length, squares);
  }
  for (uint32_t i = 0; i < count; ++i) {
    const auto w = g.param("w" + std::to_string(i), {f32, {each}});
    std::vector<GraphValue> inputs{w, gradients[i], lr};
    if (norm) inputs.insert(inputs.end(), {GraphValue{}, GraphValue{}, length});
    g.output("new" + std::to_string(i), g.node(Op::sgd, inputs)[0]);
  }
  REQUIRE_MESSAGE(g.check().ok(), g.check().message());
  return g;
}

// A target on which all updates of `g` would take `launches` times as long as a launch.
FusionTarget with_launches(uint32_t count, double launches) {
  FusionTarget target = willing();
  const double bytes = 3.0 * sizeof(float) * each * count;
  target.launch_ns = bytes / target.bytes_per_ns / launches;
  return target;
}

// Which parameters each group of updates renews.
std::vector<std::vector<uint32_t>> parts(const Graph& g, const FusionTarget& target, bool by_arrival = true) {
  FusionOptions options;
  options.updates_by_arrival = by_arrival;
  const FusionCut cut = must(fuse(g, target, options));
  check_cut(g, cut);
  std::vector<std::vector<uint32_t>> out;
  for (const FusionGroup& group : cut.groups) {
    std::vector<uint32_t> renewed;
    for (const uint32_t node : group.nodes) {
      if (g.nodes()[node].op != Op::sgd) continue;
      renewed.push_back(
          static_cast<uint32_t>(std::stoul(g.values()[g.nodes()[node].inputs[0]].name.substr(1))));
    }
    if (!renewed.empty()) out.push_back(renewed);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<uint32_t> from_to(uint32_t first, uint32_t last) {
  std::vector<uint32_t> out(last - first + 1);
  std::iota(out.begin(), out.end(), first);
  return out;
}

}  // namespace

TEST_CASE("arrival: parts of as many bytes, of neighbours in the order in which gradients are sent") {
  const Graph g = ranked_updates(12);
  const auto found = parts(g, with_launches(12, 17));  // 4 parts cost 4 launches, and leave about as much
  CHECK(found ==
        std::vector<std::vector<uint32_t>>{from_to(0, 2), from_to(3, 5), from_to(6, 8), from_to(9, 11)});
}

TEST_CASE("arrival: as many parts as pay: one where a launch is dear, eight at most, none that is empty") {
  const Graph g = ranked_updates(12);
  CHECK(parts(g, with_launches(12, 0.5)) == std::vector<std::vector<uint32_t>>{from_to(0, 11)});
  CHECK(parts(g, with_launches(12, 1e6)).size() == 8);
  CHECK(parts(ranked_updates(3), with_launches(3, 1e6)).size() == 3);
  CHECK(parts(g, with_launches(12, 17), false) == std::vector<std::vector<uint32_t>>{from_to(0, 11)});
}

TEST_CASE("arrival: updates that all wait for the same sums are one") {
  const Graph g = ranked_updates(6, true);
  CHECK(parts(g, with_launches(6, 1e6)) == std::vector<std::vector<uint32_t>>{from_to(0, 5)});
}
