// SPDX-License-Identifier: Apache-2.0
// A Graph keeps values and nodes in run order, knows who makes and who reads each, and can be copied.
#include <tenon/graph.hpp>

#include <doctest/doctest.h>

#include <array>

using namespace tenon;

namespace {

Graph layer() {
  Graph g("mlp");
  const auto x = g.input("x", {bf16, {64, 1024}});
  const auto w = g.param("w", {bf16, {1024, 4096}});
  const auto y = g.named("y").relu(g.add(g.named("fc").matmul(x, w), g.param("b", {bf16, {4096}})));
  g.output("loss", g.mean(y, {0, 1}));
  return g;
}

}  // namespace

TEST_CASE("graph: a layer has its shapes, types, names, makers and users") {
  const Graph g = layer();
  REQUIRE(g.check().ok());
  REQUIRE(g.nodes().size() == 4);
  REQUIRE(g.values().size() == 7);
  const Graph::Node& matmul = g.nodes()[0];
  CHECK(matmul.op == Op::matmul);
  CHECK(matmul.inputs == std::vector<uint32_t>{0, 1});
  const Graph::ValueInfo& fc = g.values()[matmul.outputs[0]];
  CHECK(fc.name == "fc");
  CHECK(fc.role == Graph::Role::computed);
  CHECK(fc.producer == 0);
  CHECK(fc.users == std::vector<uint32_t>{1});
  CHECK(fc.spec.dtype == bf16);
  CHECK(fc.spec.dims == std::vector<int64_t>{64, 4096});
  CHECK(g.values()[1].role == Graph::Role::param);
  CHECK(g.values()[1].producer == TN_ABSENT);
  CHECK(g.outputs()[0].name == "loss");
  CHECK(g.spec(g.value(g.outputs()[0].value)).dims.empty());
}

TEST_CASE("graph: attributes are complete and sorted") {
  Graph g;
  const auto x = g.input("x", {f32, {1, 3, 8, 8}}), w = g.param("w", {f32, {4, 3, 3, 3}});
  g.conv2d(x, w, {{"stride", Graph::Ints{2, 2}}});
  REQUIRE(g.check().ok());
  const Graph::Attributes& attributes = g.nodes()[0].attributes;
  REQUIRE(attributes.size() == 4);
  CHECK(attributes[0].name == "dilation");
  CHECK(attributes[3].name == "stride");
  CHECK(std::get<std::vector<int64_t>>(attributes[0].value) == std::vector<int64_t>{1, 1});
}

TEST_CASE("graph: a node that reads a value twice is its user once") {
  Graph g;
  const auto x = g.input("x", {f32, {2}});
  g.mul(x, x);
  g.neg(x);
  CHECK(g.values()[0].users == std::vector<uint32_t>{0, 1});
}

TEST_CASE("graph: values without a name are numbered past what is taken") {
  Graph g;
  const auto x = g.input("2", {f32, {2}});
  const auto y = g.neg(x), z = g.neg(y);
  CHECK(g.values()[y.index].name == "1");
  CHECK(g.values()[z.index].name == "3");
  const auto [a, b] = g.named({"", "4"}).batch_norm_stats(g.input("i", {f32, {2, 3}}));
  REQUIRE(g.check().ok());
  CHECK(g.values()[a.index].name != g.values()[b.index].name);
  CHECK(g.values()[b.index].name == "4");
}

TEST_CASE("graph: several outputs can be taken apart and named one by one") {
  Graph g;
  const auto x = g.input("x", {bf16, {8, 16}}), scale = g.param("s", {f32, {16}}),
             bias = g.param("b", {f32, {16}});
  const auto [y, mean, inv_std] = g.named({"y", "mean", "inv_std"}).layer_norm(x, scale, bias);
  REQUIRE(g.check().ok());
  CHECK(g.spec(y).dtype == bf16);
  CHECK(g.spec(mean).dtype == f32);
  CHECK(g.spec(inv_std).dims == std::vector<int64_t>{8});
  CHECK(g.values()[mean.index].name == "mean");
}

TEST_CASE("graph: names that are known at run time only") {
  Graph g;
  const std::vector<std::string> names = {"sum", "squares"};
  const auto made = g.named(names).batch_norm_stats(g.input("x", {f32, {2, 3}}));
  CHECK(g.values()[made[0].index].name == "sum");
  CHECK(g.values()[made[1].index].name == "squares");
}

TEST_CASE("graph: communicators are known by number, in copies too") {
  Graph g;
  g.communicator(2, 8).communicator(0, 4);
  CHECK(Graph(g).communicators() == std::map<int64_t, int64_t>{{0, 4}, {2, 8}});
}

TEST_CASE("graph: an optional input and its output are left out together") {
  Graph g;
  const auto w = g.param("w", {bf16, {8}}), dw = g.input("g", {bf16, {8}}), lr = g.input("lr", {f32, {}});
  const auto plain = g.sgd(w, dw, lr);
  CHECK(plain[1] == Graph::Value{});
  const auto master = g.param("m", {f32, {8}});
  const auto mixed = g.sgd(w, dw, lr, master, Graph::Value{}, Graph::Value{});
  REQUIRE(g.check().ok());
  CHECK(g.nodes()[0].outputs[1] == TN_ABSENT);
  CHECK(g.nodes()[1].inputs.size() == 4);
  CHECK(g.spec(mixed[1]).dtype == f32);
}

TEST_CASE("graph: a copy goes its own way, and handles are good in both") {
  Graph g;
  const auto x = g.input("x", {f32, {2}});
  const auto y = g.neg(x);
  Graph copy = g;
  copy.output("y", y);
  copy.exp(y);
  CHECK(g.nodes().size() == 1);
  CHECK(g.outputs().empty());
  CHECK(g.values()[y.index].users.empty());
  CHECK(copy.nodes().size() == 2);
  CHECK(copy.check().ok());
  g = copy;
  CHECK(g.text() == copy.text());
}

TEST_CASE("graph: a constant keeps its bytes") {
  std::array<float, 2> numbers = {1, 2};
  Graph g;
  const auto c = g.constant("c", {f32, {2}}, std::as_bytes(std::span(numbers)));
  numbers[0] = 9;
  REQUIRE(g.check().ok());
  CHECK(g.values()[c.index].constant.size() == 8);
  CHECK(g.text().find("= [1.0, 2.0]") != std::string::npos);
}

TEST_CASE("graph: a handle of nothing has a spec of nothing") {
  Graph g, other;
  const auto x = other.input("x", {f32, {2}});
  CHECK(g.spec(x).dtype == DType{});
  CHECK(g.spec({}).dims.empty());
  CHECK(g.value(7) == Graph::Value{});
}
