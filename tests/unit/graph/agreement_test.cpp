// SPDX-License-Identifier: Apache-2.0
// A graph takes a node where the author framework's rules do: right nodes, and the same with one or two things changed, asked
// of both.
#include "support/full.hpp"
#include "support/seed.hpp"
#include "unit/graph/infer_examples.hpp"

#include <tenon/author/op_rules.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <string>

using namespace tenon;
using namespace tenon::test;

namespace {

// Both rules on one node: "" where they agree, or what each says.
class Bench {
 public:
  explicit Bench(const Example& example) {
    const Graph g = graph(example);
    for (const uint32_t output : g.nodes().front().outputs)
      outputs_.push_back(output == TN_ABSENT ? TensorSpec{.dtype = DType{}} : g.values()[output].spec);
  }

  std::string disagreement(const Example& asked) {
    const Graph g = graph(asked);
    if (!g.check().ok()) {
      const auto node = as_before(asked);
      if (!node) return "";
      const Status said = rules(*node);
      ++refused_;
      return said.ok() ? "the graph refuses what the rules take: " + std::string(g.check().message()) : "";
    }
    const auto piece = g.fragment();
    if (!piece.ok()) return "no fragment: " + std::string(piece.message());
    const Status said = rules(piece->fragment);
    ++taken_;
    return said.ok() ? "" : "the graph takes what the rules refuse: " + std::string(said.message());
  }
  int taken() const { return taken_; }
  int refused() const { return refused_; }

 private:
  static Graph graph(const Example& asked) {
    Graph g;
    g.communicator(0, 2);
    std::vector<Graph::Value> inputs;
    for (const TensorSpec& spec : asked.inputs)
      inputs.push_back(g.input("x" + std::to_string(inputs.size()), spec));
    const auto made = g.node(asked.op, std::span<const Graph::Value>(inputs), asked.attributes);
    for (size_t i = 0; i < made.size(); ++i) {
      if (!(made[i] == Graph::Value{})) g.output("y" + std::to_string(i), made[i]);
    }
    return g;
  }

  // The node with the outputs that it had before it was changed; none where no fragment can say it.
  std::optional<Fragment> as_before(const Example& asked) const {
    FragmentBuilder f;
    std::vector<FragmentBuilder::Value> inputs;
    for (const TensorSpec& spec : asked.inputs) inputs.push_back(f.input(spec));
    for (const auto made : f.node(asked.op, inputs, outputs_, asked.attributes)) {
      if (made.index != TN_ABSENT) f.output(made);
    }
    auto built = f.build();
    return built.ok() ? std::optional(*built) : std::nullopt;
  }

  static Status rules(const Fragment& fragment) {
    return author::check_node_rules(author::FragmentView(fragment.abi()), 0);
  }

  std::vector<TensorSpec> outputs_{};
  int taken_ = 0, refused_ = 0;
};

// Changes one thing of a node at a time.
class Changes {
 public:
  explicit Changes(std::mt19937_64& random) : random_(random) {}

  void one(Example& node) {
    const size_t inputs = node.inputs.size(), attributes = node.attributes.size();
    if (inputs + attributes == 0) return;
    const size_t at = below(2 * inputs + attributes);
    if (at < inputs)
      node.inputs[at].dtype = dtypes_[below(std::size(dtypes_))];
    else if (at < 2 * inputs)
      resize(node.inputs[at - inputs].dims);
    else
      std::visit([&](auto& value) { change(value); }, node.attributes[at - 2 * inputs].value);
  }

 private:
  size_t below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random_); }

  void resize(Ints& dims) {
    if (dims.empty() || below(5) == 0)
      dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(below(dims.size() + 1)), 1);
    else if (below(4) == 0)
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(below(dims.size())));
    else
      dims[below(dims.size())] = static_cast<int64_t>(below(5));
  }

  void change(int64_t& value) { value = static_cast<int64_t>(below(6)) - 2; }
  void change(double& value) {
    constexpr double odd[] = {
        -1, 0, 1, 2, 0.5, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()};
    value = odd[below(std::size(odd))];
  }
  void change(Ints& values) {
    if (values.empty() || below(5) == 0)
      values.push_back(1);
    else if (below(5) == 0)
      values.pop_back();
    else
      change(values[below(values.size())]);
  }
  void change(std::vector<double>&) {}
  void change(std::string& word) { word = below(2) == 0 ? "min" : "least"; }
  void change(DType& dtype) { dtype = dtypes_[below(std::size(dtypes_))]; }

  static constexpr DType dtypes_[] = {f16, bf16, f32, f64, i32, i64, u64, u8, boolean};
  std::mt19937_64& random_;
};

// Only a graph knows how many ranks share or gather.
bool counts_ranks(Op op) { return op == Op::all_gather || op == Op::reduce_scatter; }

std::string text_of(const Example& node) {
  std::string out(name(node.op));
  for (const TensorSpec& spec : node.inputs) {
    out += " " + std::string(name(spec.dtype)) + "[";
    for (const int64_t dim : spec.dims) out += std::to_string(dim) + " ";
    out += "]";
  }
  return out;
}

}  // namespace

TEST_CASE("agreement: a graph takes what the author framework's rules take, and nothing else") {
  std::mt19937_64 random = generator();
  Changes changes(random);
  int taken = 0, refused = 0;
  for (const Example& example : examples) {
    if (example.op == Op::send || counts_ranks(example.op)) continue;  // no output, no fragment
    Bench bench(example);
    CHECK(bench.disagreement(example) == "");
    for (int i = 0; i < (full_run() ? 20'000 : 1'000); ++i) {
      Example node = example;
      for (int n = i % 3; n >= 0; --n) changes.one(node);
      CAPTURE(text_of(node));
      REQUIRE(bench.disagreement(node) == "");
    }
    taken += bench.taken();
    refused += bench.refused();
  }
  CHECK(taken > 5'000);
  CHECK(refused > 5'000);
}
