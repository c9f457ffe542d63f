// SPDX-License-Identifier: Apache-2.0
// Every op of ops.def is a function of Graph, and says the same as node().
#include <tenon/graph.hpp>

#include <doctest/doctest.h>

using namespace tenon;

namespace {

// Compiles only when Graph has a function of each op's name.
struct Names : Graph {
#define TN_OP(number, name, version, inputs_min, inputs_max, outputs, family, dtypes, shape, tolerance, \
              attributes, doc)                                                                          \
  using Graph::name;
#include <tenon/ops.def>
};

using Ints = Graph::Ints;

}  // namespace

TEST_CASE("methods: arguments become the attributes of the same name") {
  Graph by_name, by_node;
  const TensorSpec spec{f32, {2, 4}};
  const auto x = by_name.input("x", spec);
  const auto y = by_node.input("x", spec);
  by_name.cast(x, f16);
  by_name.scale(x, 2, 1);
  by_name.sum(x, {1}, true);
  by_name.mean(x, {0});
  by_name.reshape(x, {8});
  by_name.transpose(x, {1, 0});
  by_name.concat({x, x}, 0);
  by_name.slice(x, {0, 1}, {2, 3}, {1, 1});
  by_name.pad(x, {0, 1}, {2, 3}, 7);
  by_name.broadcast_to(x, {3, 2, 4});
  by_name.convert_layout(x, "strided");
  by_name.constant({f16, {2}}, 3);
  by_name.softmax(x, {{"axis", 0}});
  by_node.node(Op::cast, {y}, {{"dtype", f16}});
  by_node.node(Op::scale, {y}, {{"scale", 2.0}, {"bias", 1.0}});
  by_node.node(Op::sum, {y}, {{"axes", Ints{1}}, {"keepdims", 1}});
  by_node.node(Op::mean, {y}, {{"axes", Ints{0}}});
  by_node.node(Op::reshape, {y}, {{"shape", Ints{8}}});
  by_node.node(Op::transpose, {y}, {{"order", Ints{1, 0}}});
  by_node.node(Op::concat, {y, y}, {{"axis", 0}});
  by_node.node(Op::slice, {y}, {{"begin", Ints{0, 1}}, {"end", Ints{2, 3}}, {"step", Ints{1, 1}}});
  by_node.node(Op::pad, {y}, {{"before", Ints{0, 1}}, {"after", Ints{2, 3}}, {"value", 7.0}});
  by_node.node(Op::broadcast_to, {y}, {{"shape", Ints{3, 2, 4}}});
  by_node.node(Op::convert_layout, {y}, {{"layout", "strided"}});
  by_node.node(Op::constant, std::initializer_list<Graph::Value>{},
               {{"dtype", f16}, {"shape", Ints{2}}, {"value", 3.0}});
  by_node.node(Op::softmax, {y}, {{"axis", 0}});
  REQUIRE_MESSAGE(by_name.check().ok(), by_name.check().message());
  CHECK(by_name.text() == by_node.text());
}

TEST_CASE("methods: on a broken graph each gives as many values as ever") {
  Graph g;
  g.neg({});
  REQUIRE_FALSE(g.check().ok());
  CHECK(g.batch_norm_train({}, {}, {}, {}, {}).size() == 5);
  CHECK(g.check_finite_and_unscale({{}, {}, {}}).size() == 3);
  CHECK(g.node(static_cast<Op>(9999), {Graph::Value{}}).size() == 1);
  g.send({});
  CHECK(g.recv() == Graph::Value{});
  CHECK(g.nodes().empty());
}
