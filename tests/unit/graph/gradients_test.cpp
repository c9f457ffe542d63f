// SPDX-License-Identifier: Apache-2.0
// How gradients are put together: sums where ways join, stops, zeros, refusals by name.
#include "support/interpreter.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

using namespace tenon;
using namespace tenon::test;

namespace {

size_t count(const Graph& g, Op op) {
  return static_cast<size_t>(std::count_if(g.nodes().begin(), g.nodes().end(),
                                           [&](const Graph::Node& node) { return node.op == op; }));
}

double number(const Graph& g, Graph::Value value, const Tensors& given) {
  return run(g, given).at(value.index).at[0].real;
}

}  // namespace

TEST_CASE("gradients: where ways join they are added") {
  Graph g;
  const auto x = g.param("x", {f64, {}});
  const auto y = g.add(g.square(x), g.mul(x, g.exp(x)));
  const auto made = g.gradients(y, {x});
  REQUIRE_MESSAGE(made.ok(), made.message());
  const Tensors at{{x.index, tensor_of(g.spec(x), {0.5})}};
  CHECK(number(g, (*made)[0], at) == doctest::Approx(1 + 1.5 * std::exp(0.5)));
}

TEST_CASE("gradients: are called by what they are of") {
  Graph g;
  const auto x = g.input("x", {f64, {4}}), w = g.param("w", {f64, {4}});
  const auto h = g.named("h").mul(x, w);
  const auto loss = g.named("loss").sum(g.named("y").add(g.named("a").tanh(h), g.named("b").sigmoid(h)), {0});
  const auto made = g.gradients(loss, {w});
  REQUIRE(made.ok());
  const auto called = [&](Graph::Value value) { return g.values()[value.index].name; };
  CHECK(called((*made)[0]) == "w.grad");
  std::set<std::string> names;
  for (const Graph::ValueInfo& info : g.values()) names.insert(info.name);
  // Two ways to h, and their sum; what both of y's inputs get is the gradient of y itself.
  for (const char* name : {"loss.grad", "y.grad", "h.grad", "h.grad.1", "h.grad.2"})
    CHECK(names.contains(name));
  const auto again = g.gradients(loss, {w});
  REQUIRE(again.ok());
  CHECK(called((*again)[0]) != "w.grad");
}

TEST_CASE("gradients: a parameter that is not used has a gradient of zeros") {
  Graph g;
  const auto x = g.param("x", {f64, {}}), unused = g.param("unused", {bf16, {2, 3}});
  const auto made = g.gradients(g.square(x), {unused, x});
  REQUIRE(made.ok());
  CHECK(g.spec((*made)[0]).dims == std::vector<int64_t>{2, 3});
  CHECK(g.spec((*made)[0]).dtype == bf16);
  const Graph::Node& zeros = g.nodes()[g.values()[(*made)[0].index].producer];
  CHECK(zeros.op == Op::constant);
  CHECK(std::get<double>(zeros.attributes[2].value) == 0);
}

TEST_CASE("gradients: nothing is computed for what is not asked for") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 8}}), w = g.param("w", {f32, {8, 2}});
  const auto loss = g.mean(g.matmul(x, w), {0, 1});
  REQUIRE(g.gradients(loss, {w}).ok());
  CHECK(count(g, Op::matmul) == 2);
}

TEST_CASE("gradients: a matrix that a batch was multiplied with gets one product over all rows") {
  for (const int64_t turned : {0, 1}) {
    Graph g;
    const auto x = g.param("x", {f32, {4, 6, 8}}),
               w = g.param("w", {f32, turned != 0 ? std::vector<int64_t>{2, 8} : std::vector<int64_t>{8, 2}});
    const auto loss = g.mean(g.matmul(x, w, {{"transpose_b", turned}}), {0, 1, 2});
    const auto made = g.gradients(loss, {w, x});
    REQUIRE(made.ok());
    const Graph::Node& product = g.nodes()[g.values()[made->front().index].producer];
    CHECK(product.op == Op::matmul);
    for (const uint32_t operand : product.inputs) CHECK(g.values()[operand].spec.dims.front() == 24);
    CHECK(g.spec((*made)[1]).dims == std::vector<int64_t>{4, 6, 8});
    CHECK(count(g, Op::sum) == 0);
  }
}

TEST_CASE("gradients: those of one node are one node") {
  Graph g;
  const auto x = g.param("x", {f32, {4, 8}}), s = g.param("s", {f32, {8}}), b = g.param("b", {f32, {8}});
  const auto loss = g.mean(g.layer_norm(x, s, b)[0], {0, 1});
  REQUIRE(g.gradients(loss, {x, s, b}).ok());
  CHECK(count(g, Op::layer_norm_grad) == 1);
}

TEST_CASE("gradients: of a value that is asked for itself and through another") {
  Graph g;
  const auto x = g.param("x", {f64, {}});
  const auto y = g.square(x), z = g.square(y);
  const auto made = g.gradients(z, {x, y, z});
  REQUIRE(made.ok());
  const Tensors at{{x.index, tensor_of(g.spec(x), {3})}};
  CHECK(number(g, (*made)[0], at) == doctest::Approx(4 * 27));
  CHECK(number(g, (*made)[1], at) == doctest::Approx(2 * 9));
  CHECK(number(g, (*made)[2], at) == 1);
}

TEST_CASE("gradients: gradients have gradients") {
  Graph g;
  const auto x = g.param("x", {f64, {}});
  const auto first = g.gradients(g.tanh(x), {x});
  REQUIRE(first.ok());
  const auto second = g.gradients((*first)[0], {x});
  REQUIRE_MESSAGE(second.ok(), second.message());
  const double t = std::tanh(0.7);
  const Tensors at{{x.index, tensor_of(g.spec(x), {0.7})}};
  CHECK(number(g, (*second)[0], at) == doctest::Approx(-2 * t * (1 - t * t)));
}

TEST_CASE("gradients: a seed stands for what comes after") {
  Graph g;
  const auto x = g.param("x", {f64, {2}});
  const auto y = g.square(x);
  const auto seed = g.input("seed", {f64, {2}});
  const auto made = g.gradients(y, {x}, seed);
  REQUIRE(made.ok());
  const Tensors values =
      run(g, {{x.index, tensor_of(g.spec(x), {1, 2})}, {seed.index, tensor_of(g.spec(seed), {10, 100})}});
  CHECK(values.at((*made)[0].index).at[0].real == 20);
  CHECK(values.at((*made)[0].index).at[1].real == 400);
}

TEST_CASE("gradients: integers carry none, so a choice by index is a constant") {
  Graph g;
  const auto x = g.param("x", {f32, {4}});
  const auto best = g.cast(g.argmax(x, {0}), f32);
  const auto made = g.gradients(best, {x});
  REQUIRE(made.ok());
  CHECK(g.nodes()[g.values()[(*made)[0].index].producer].op == Op::constant);
}

TEST_CASE("gradients: an op without a rule is named, and the graph stays as it was") {
  Graph g;
  const auto x = g.param("x", {f32, {4}});
  const auto y = g.named("p").reduce_prod(g.named("e").exp(x), {0});
  const std::string before = g.text();
  const auto made = g.gradients(y, {x});
  CHECK(made.code() == TN_UNSUPPORTED);
  CHECK(made.message() ==
        "gradients: reduce_prod 'p' has no gradient for input 0 ('e'), which leads to what is asked for");
  CHECK(g.text() == before);
  CHECK(g.check().ok());
}

TEST_CASE("gradients: an output whose gradient no rule takes back is named") {
  Graph g;
  const auto x = g.param("x", {f32, {4, 8}}), s = g.param("s", {f32, {8}}), b = g.param("b", {f32, {8}});
  const auto [y, mean, inv] = g.named({"y", "mu", "inv"}).layer_norm(x, s, b);
  const auto made = g.gradients(g.sum(mean, {0}), {x});
  CHECK(made.code() == TN_UNSUPPORTED);
  CHECK(made.message() == "gradients: layer_norm 'y' has no gradient from output 1 ('mu') to input 0 ('x')");
}

TEST_CASE("gradients: what cannot be differentiated is told why") {
  Graph g, other;
  const auto x = g.param("x", {f32, {4}}), i = g.input("i", {i64, {}});
  CHECK(g.gradients(x, {x}).message() == "gradients: 'x' has 4 elements: reduce it to one, or give a seed");
  CHECK(g.gradients(i, {x}).message() == "gradients: 'i' is i64: only floats have gradients");
  CHECK(g.gradients(x, {x}, i).message() ==
        "gradients: the seed of 'x' has another type or shape than 'x' itself");
  CHECK(g.gradients(x, {other.input("y", {f32, {}})}).message() ==
        "gradients: a value is not of this graph: pass what this graph gave");
  CHECK(g.check().ok());
}

TEST_CASE("gradients: equal graphs get equal gradients") {
  const auto build = [] {
    Graph g;
    const auto x = g.input("x", {bf16, {8, 16}}), w = g.param("w", {bf16, {16, 4}}),
               b = g.param("b", {bf16, {4}});
    const auto h = g.gelu(g.add(g.matmul(x, w), b));
    const auto made = g.gradients(g.mean(g.mul(h, g.softmax(h)), {0, 1}), {b, w});
    REQUIRE_MESSAGE(made.ok(), made.message());
    g.output("db", (*made)[0]);
    g.output("dw", (*made)[1]);
    return g.text();
  };
  CHECK(build() == build());
}
