// SPDX-License-Identifier: Apache-2.0
// The property: random graphs through random passes with random options. What comes out is valid, is run by an interpreter
// that never rounds, and gives the same numbers: at the outputs, and wherever the passes say that a value is found.
//
// Aliases are proved by running the graph in other orders with the memory really shared.
#include "support/full.hpp"
#include "support/random_graph.hpp"
#include "support/seed.hpp"

#include <tenon/passes.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace tenon;
using namespace tenon::test;

namespace {

class Choice {
 public:
  explicit Choice(uint64_t seed) : random_(seed) {}
  bool operator()(int in) { return random_() % static_cast<uint64_t>(in) == 0; }
  template <class T>
  T of(std::initializer_list<T> all) {
    return *(all.begin() + random_() % all.size());
  }
  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
};

passes::Options options_from(Choice& chance, const Graph& graph) {
  passes::Options out;
  const auto name_of_a_value = [&] { return graph.values()[chance.random()() % graph.values().size()].name; };
  const auto names_of_params = [&] {
    std::vector<std::string> names;
    for (const Graph::ValueInfo& info : graph.values()) {
      if (info.role == Graph::Role::param && chance(2)) names.push_back(info.name);
    }
    return names;
  };
  if (chance(2)) {
    out.prune = passes::PruneOptions{};
    if (chance(3)) out.prune->stop_gradient = names_of_params();
  }
  if (!chance(3)) {
    out.amp = passes::AmpOptions{.level = chance.of({passes::AmpLevel::O1, passes::AmpLevel::O2}),
                                 .half = chance.of({f16, bf16})};
    if (chance(3)) out.amp->white = {name_of_a_value(), std::string(chance.of({"mean", "softmax", "add"}))};
    if (chance(3))
      out.amp->black = {std::string(chance.of({"matmul", "tanh", "conv2d", "batch_norm_train"}))};
  }
  if (chance(2)) out.attention = passes::AttentionOptions{};
  if (chance(2)) {
    out.pad = passes::PadOptions{.multiple = chance.of<int64_t>({2, 4, 8}),
                                 .first_channels = chance.of<int64_t>({0, 3, 4}),
                                 .max_growth = chance.of({1.5, 2.0, 100.0}),
                                 .all_types = chance(2)};
  }
  if (chance(2)) out.recompute = passes::RecomputeOptions{};
  if (chance(2))
    out.layout = passes::LayoutOptions{.prefer = chance.of({"nhwc", "nhwc", "nchw", "NC16HW16"})};
  if (chance(2)) out.addto = passes::AddtoOptions{.max_inplace_grad_add = chance.of<int64_t>({0, 2, 3, 8})};
  if (chance(2)) out.in_place = passes::InPlaceOptions{.params = chance(2)};
  return out;
}

Leaves with_masters(Leaves leaves, const passes::Rewritten& work) {
  for (const passes::Master& master : work.masters) leaves.emplace(master.master, leaves.at(master.param));
  return leaves;
}

// "" or how the outputs and known values of the new graph differ from the old ones'.
std::string differences(const Graph& graph, const Tensors& expected, const passes::Rewritten& work,
                        const Tensors& found, double bound) {
  std::map<std::string, uint32_t> outputs;
  for (const Graph::Output& output : work.graph.outputs()) outputs.emplace(output.name, output.value);
  for (const Graph::Output& output : graph.outputs()) {
    const auto now = outputs.find(output.name);
    if (now == outputs.end()) continue;  // pruned; the caller counts them
    const std::string why = difference(expected.at(output.value), found.at(now->second), bound);
    if (!why.empty()) return "output " + output.name + ": " + why;
  }
  if (work.values.size() != graph.values().size()) return "the map of values has another size";
  for (uint32_t i = 0; i < work.values.size(); ++i) {
    if (work.values[i].index == TN_ABSENT) continue;
    const std::string why = difference(expected.at(i), found.at(work.values[i].index), bound);
    if (!why.empty()) return "value " + graph.values()[i].name + ": " + why;
  }
  return "";
}

// A random order in which the nodes can run.
std::vector<uint32_t> some_order(const Graph& graph, std::mt19937_64& random) {
  std::vector<uint32_t> ready, out, missing(graph.nodes().size());
  for (uint32_t i = 0; i < missing.size(); ++i) {
    std::set<uint32_t> needed;
    for (const uint32_t value : graph.nodes()[i].inputs) {
      if (value != TN_ABSENT && graph.values()[value].producer != TN_ABSENT)
        needed.insert(graph.values()[value].producer);
    }
    missing[i] = static_cast<uint32_t>(needed.size());
    if (needed.empty()) ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const uint32_t node = ready.back();
    ready.pop_back();
    out.push_back(node);
    std::set<uint32_t> users;
    for (const uint32_t value : graph.nodes()[node].outputs) {
      if (value != TN_ABSENT)
        users.insert(graph.values()[value].users.begin(), graph.values()[value].users.end());
    }
    for (const uint32_t user : users) {
      if (--missing[user] == 0) ready.push_back(user);
    }
  }
  return out;
}

// Each value has a memory, which an alias hands on; one that depends on the order does where nobody reads the input later, as
// in a plan. "" or who read a memory that held another value by then.
std::string broken_alias(const passes::Rewritten& work, std::mt19937_64& random) {
  const Graph& graph = work.graph;
  std::vector<uint32_t> memory(graph.values().size()), holds(graph.values().size());
  for (uint32_t i = 0; i < memory.size(); ++i) memory[i] = holds[i] = i;
  std::multimap<uint32_t, passes::Alias> aliases;
  for (const passes::Alias& alias : work.aliases) aliases.emplace(alias.node, alias);
  const std::vector<uint32_t> order = some_order(graph, random);
  if (order.size() != graph.nodes().size()) return "the graph has a cycle";
  std::vector<uint32_t> last_reader(graph.values().size(), TN_ABSENT);
  for (const uint32_t index : order) {
    for (const uint32_t value : graph.nodes()[index].inputs) {
      if (value != TN_ABSENT) last_reader[value] = index;
    }
  }
  for (const uint32_t index : order) {
    const Graph::Node& node = graph.nodes()[index];
    for (const uint32_t value : node.inputs) {
      if (value != TN_ABSENT && holds[memory[value]] != value)
        return "'" + graph.values()[value].name + "' is overwritten when it is read";
    }
    const auto [first, last] = aliases.equal_range(index);
    for (auto alias = first; alias != last; ++alias) {
      const uint32_t out = node.outputs.at(alias->second.output), in = node.inputs.at(alias->second.input);
      if (alias->second.by_order && last_reader[in] != index) continue;
      memory[out] = memory[in];
      holds[memory[out]] = out;
    }
  }
  for (const Graph::Output& output : graph.outputs()) {
    if (holds[memory[output.value]] != output.value)
      return "output " + output.name + " is overwritten at the end";
  }
  return "";
}

// Whoever reads a value that is not dense is one that can: "" or who is not.
std::string broken_layout(const passes::Rewritten& work) {
  static const std::set<Op> convolutions = {Op::conv2d, Op::conv2d_grad_data, Op::conv2d_grad_weight};
  static const std::set<Op> dense_only = {
      Op::reshape, Op::transpose, Op::matmul, Op::sum,      Op::mean,    Op::reduce_max, Op::reduce_min,
      Op::argmax,  Op::sgd,       Op::adam,   Op::momentum, Op::softmax, Op::layer_norm, Op::embedding};
  const Graph& graph = work.graph;
  for (const passes::Placement& placement : work.placements) {
    const Graph::ValueInfo& info = graph.values()[placement.value];
    if (info.role != Graph::Role::computed) return "a leaf is placed: " + info.name;
    if (placement.strides.empty() == placement.layout.empty())
      return "neither strides nor a layout: " + info.name;
    for (const uint32_t user : info.users) {
      if (dense_only.contains(graph.nodes()[user].op))
        return std::string(name(graph.nodes()[user].op)) + " reads " + info.name;
    }
    for (const Graph::Output& output : graph.outputs()) {
      if (output.value == placement.value) return "output " + output.name + " is not dense";
    }
  }
  return "";
}

// Casts of floats after mixed precision: none to a type that is there already, none twice, none of what was widened.
std::string broken_casts(const Graph& graph) {
  const auto dtype_of = [&](uint32_t value) { return graph.values()[value].spec.dtype; };
  const auto is_float = [](DType dtype) {
    return dtype == f16 || dtype == bf16 || dtype == f32 || dtype == f64;
  };
  std::set<std::pair<uint32_t, DType>> seen;
  for (const Graph::Node& node : graph.nodes()) {
    if (node.op != Op::cast) continue;
    const uint32_t from = node.inputs[0], to = node.outputs[0], made = graph.values()[from].producer;
    if (!is_float(dtype_of(from)) || !is_float(dtype_of(to))) continue;
    const std::string& called = graph.values()[to].name;
    if (dtype_of(from) == dtype_of(to)) return called + " is a cast to the type it has";
    if (!seen.insert({from, dtype_of(to)}).second) return called + " is cast twice";
    if (made == TN_ABSENT || graph.nodes()[made].op != Op::cast) continue;
    const DType origin = dtype_of(graph.nodes()[made].inputs[0]);
    if (is_float(origin) && bits(origin) < bits(dtype_of(from))) return called + " goes through a wider type";
  }
  return "";
}

std::string told(const passes::Options& options) {
  std::string out;
  if (options.prune) out += " prune";
  if (options.amp) out += options.amp->level == passes::AmpLevel::O1 ? " amp O1" : " amp O2";
  if (options.attention) out += " attention";
  if (options.pad) out += " pad " + std::to_string(options.pad->multiple);
  if (options.recompute) out += " recompute";
  if (options.layout) out += " layout " + options.layout->prefer;
  if (options.addto) out += " addto " + std::to_string(options.addto->max_inplace_grad_add);
  if (options.in_place) out += " in_place";
  return out;
}

bool told_of(const passes::Rewritten& work, std::string_view what) {
  return passes::explain(work.notes).find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("passes: a graph computes what it computed after every combination of passes") {
  const uint64_t first = seed();
  const int count = full_or("random graphs", 200, 2000);
  size_t rewritten = 0, aliased = 0, placed = 0, with_a_master = 0, stopped = 0, remade = 0, attended = 0;
  for (int i = 0; i < count; ++i) {
    const uint64_t one = first + static_cast<uint64_t>(i);
    const RandomGraph made = random_graph(one, {.normalised = one % 4 == 0, .attentive = one % 4 == 1});
    const Tensors expected = run(made.graph, bound(made.graph, made.leaves));
    Choice chance(one);
    const passes::Options options = options_from(chance, made.graph);
    const auto done = passes::run(made.graph, options);
    INFO("TENON_TEST_SEED=" << one << " passes" << told(options) << "\n" << made.graph.text());
    REQUIRE_MESSAGE(done.ok(), done.message());
    const passes::Rewritten& work = *done;
    INFO("became\n" << work.graph.text() << passes::explain(work.notes));
    REQUIRE_MESSAGE(work.graph.check().ok(), work.graph.check().message());
    const auto again = Graph::parse(work.graph.text());
    REQUIRE_MESSAGE(again.ok(), again.message());
    const Tensors found = run(work.graph, bound(work.graph, with_masters(made.leaves, work)));
    const bool attends = told_of(work, "+ attention: ");
    REQUIRE(differences(made.graph, expected, work, found, attends ? 1e-12 : 0) == "");
    REQUIRE(broken_layout(work) == "");
    if (options.amp) REQUIRE(broken_casts(work.graph) == "");
    for (int order = 0; order < 4; ++order) REQUIRE(broken_alias(work, chance.random()) == "");
    const bool stops = options.prune && !options.prune->stop_gradient.empty();
    REQUIRE((stops || work.graph.outputs().size() == made.graph.outputs().size() + work.masters.size()));
    rewritten += work.graph.text() != made.graph.text() ? 1 : 0;
    aliased += work.aliases.empty() ? 0 : 1;
    placed += work.placements.empty() ? 0 : 1;
    with_a_master += work.masters.empty() ? 0 : 1;
    attended += attends ? 1 : 0;
    remade += work.graph.text().find(".again") != std::string::npos ? 1 : 0;
    stopped += work.graph.outputs().size() < made.graph.outputs().size() ? 1 : 0;
  }
  MESSAGE("rewritten " << rewritten << ", aliased " << aliased << ", placed " << placed << ", with masters "
                       << with_a_master << ", updates stopped " << stopped << ", made again " << remade
                       << ", attention found " << attended);
  CHECK(rewritten > static_cast<size_t>(count) / 2);
  CHECK(aliased > static_cast<size_t>(count) / 5);
  CHECK(placed > static_cast<size_t>(count) / 40);
  CHECK(with_a_master > static_cast<size_t>(count) / 40);
  CHECK(stopped > 0);
  CHECK(remade > static_cast<size_t>(count) / 40);
  CHECK(attended > static_cast<size_t>(count) / 100);
}
