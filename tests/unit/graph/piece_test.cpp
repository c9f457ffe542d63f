// SPDX-License-Identifier: Apache-2.0
// Nodes of a graph as fragments: what comes in and goes out is found, and what cannot be one is refused.
#include <tenon/graph.hpp>

#include <doctest/doctest.h>

#include <array>

using namespace tenon;

namespace {

using Indexes = std::vector<uint32_t>;

// x → exp → neg → add(exp, neg) → tanh, twice over.
struct Chain {
  Graph g{"chain"};
  Graph::Value x, out;
  Chain() {
    x = g.input("x", {f32, {4}});
    out = x;
    for (int i = 0; i < 2; ++i) {
      const auto e = g.exp(out);
      out = g.tanh(g.add(e, g.neg(e)));
    }
    g.output("y", out);
  }
};

}  // namespace

TEST_CASE("piece: inputs are what others make, outputs what others need") {
  const Chain chain;
  const auto piece = chain.g.fragment(Indexes{2, 1, 2});
  REQUIRE_MESSAGE(piece.ok(), piece.message());
  CHECK(piece->inputs == chain.g.nodes()[0].outputs);
  CHECK(piece->outputs == chain.g.nodes()[2].outputs);
  CHECK(piece->fragment.abi().node_count == 2);
  CHECK(piece->fragment.abi().input_count == 1);
  CHECK(piece->fragment.bindings()[1].dims == std::vector<int64_t>{4});
}

TEST_CASE("piece: equal nodes at different places are equal fragments") {
  const Chain chain;
  const auto first = chain.g.fragment(Indexes{0, 1, 2, 3}), second = chain.g.fragment(Indexes{4, 5, 6, 7});
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(first->fragment.identity() == second->fragment.identity());
  CHECK(first->outputs != second->outputs);
}

TEST_CASE("piece: a value needed inside and outside is an output") {
  Graph g;
  const auto x = g.input("x", {f32, {4}});
  const auto e = g.exp(x), n = g.neg(e);
  g.output("sum", g.add(e, n));
  const auto piece = g.fragment(Indexes{0, 1});
  REQUIRE(piece.ok());
  CHECK(piece->outputs == Indexes{e.index, n.index});
}

TEST_CASE("piece: a path that leaves and comes back is refused by name") {
  const Chain chain;
  const auto piece = chain.g.fragment(Indexes{0, 2});
  REQUIRE_FALSE(piece.ok());
  CHECK(piece.code() == TN_INVALID);
  CHECK(piece.message() == "neg '2' stands between these nodes: it needs one of them, and add '3' needs it");
}

TEST_CASE("piece: a node that is not there and a piece of nothing are refused") {
  const Chain chain;
  CHECK(chain.g.fragment(Indexes{8}).message() == "node 8 is not there: the graph has 8 nodes");
  CHECK(chain.g.fragment(Indexes{}).message() == "a piece has at least one node");
}

TEST_CASE("piece: constants travel with their nodes") {
  const std::array<float, 4> numbers = {1, 2, 3, 4};
  Graph g;
  const auto c = g.constant("c", {f32, {4}}, std::as_bytes(std::span(numbers)));
  g.output("y", g.add(g.input("x", {f32, {4}}), c));
  const auto piece = g.fragment(Indexes{0});
  REQUIRE(piece.ok());
  CHECK(piece->fragment.abi().input_count == 1);
  CHECK(piece->fragment.abi().tensors[1].constant_bytes == 16);
}

TEST_CASE("piece: the whole graph binds its leaves as declared and its outputs as marked") {
  Graph g;
  const auto unused = g.input("unused", {f32, {2}});
  const auto w = g.param("w", {f32, {4}}), x = g.input("x", {f32, {4}});
  const auto y = g.mul(x, w), z = g.neg(y);
  g.output("z", z);
  g.output("y", y);
  const auto whole = g.fragment();
  REQUIRE_MESSAGE(whole.ok(), whole.message());
  CHECK(whole->inputs == Indexes{unused.index, w.index, x.index});
  CHECK(whole->outputs == Indexes{z.index, y.index});
  CHECK(whole->fragment.bindings().size() == 5);
}

TEST_CASE("piece: a graph without nodes or outputs is no fragment") {
  Graph g("none");
  CHECK(g.fragment().code() == TN_INVALID);
  g.neg(g.input("x", {f32, {2}}));
  CHECK(g.fragment().message().find("no output") != std::string_view::npos);
}
