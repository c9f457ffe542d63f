// SPDX-License-Identifier: Apache-2.0
// Mixed precision in numbers that are rounded as a device rounds them: near the f32 result, and not the f32 result.
#include "support/interpreter.hpp"

#include <tenon/passes.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace tenon;
using namespace tenon::test;
using passes::AmpLevel;

namespace {

// Three layers with a norm, softmax and a loss; the gradients of all parameters are outputs.
Graph network() {
  Graph g;
  const auto x = g.input("x", {f32, {8, 16}}), labels = g.input("labels", {i64, {8}});
  std::vector<Graph::Value> params;
  const auto param = [&](const char* name, std::vector<int64_t> dims) {
    return params.emplace_back(g.param(name, {f32, std::move(dims)}));
  };
  const auto h = g.gelu(g.add(g.matmul(x, param("w1", {16, 32})), param("b1", {32})));
  const auto n = g.layer_norm(h, param("scale", {32}), param("bias", {32}))[0];
  const auto scores = g.matmul(g.relu(g.matmul(n, param("w2", {32, 32}))), param("w3", {32, 10}));
  const auto loss = g.named("loss").mean(g.cross_entropy(scores, labels)[0], {0});
  const auto gradients = g.gradients(loss, params);
  REQUIRE(gradients.ok());
  g.output("loss", loss);
  for (size_t i = 0; i < params.size(); ++i) g.output("d" + std::to_string(i), (*gradients)[i]);
  REQUIRE_MESSAGE(g.check().ok(), g.check().message());
  return g;
}

// Numbers as they are at the beginning of a training.
Tensors numbers_for(const Graph& graph) {
  std::mt19937_64 random(5);
  Tensors out;
  for (uint32_t i = 0; i < graph.values().size(); ++i) {
    const Graph::ValueInfo& info = graph.values()[i];
    if (info.role == Graph::Role::computed) continue;
    std::vector<double> numbers(info.spec.elements());
    for (double& number : numbers) {
      const double unit = std::uniform_real_distribution<double>(-1, 1)(random);
      number = info.name == "labels" ? std::floor((unit + 1) * 4.9) : info.name == "x" ? unit : 0.4 * unit;
    }
    out.emplace(i, tensor_of(info.spec, numbers));
  }
  return out;
}

// The largest |difference| over the largest |number|, of the outputs.
double error_of(const Graph& g, const Tensors& expected, const Graph& other, const Tensors& found) {
  double worst = 0;
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const auto &a = expected.at(g.outputs()[i].value).at, &b = found.at(other.outputs()[i].value).at;
    double size = 0, apart = 0;
    for (size_t k = 0; k < a.size(); ++k) {
      size = std::max(size, std::fabs(a[k].real));
      apart = std::max(apart, std::fabs(a[k].real - b[k].real));
    }
    REQUIRE(size > 0);
    worst = std::max(worst, apart / size);
  }
  return worst;
}

}  // namespace

TEST_CASE("amp: rounded as a device rounds, loss and gradients are near those of f32") {
  const Graph g = network();
  const Tensors leaves = numbers_for(g), expected = run_rounded(g, leaves);
  for (const DType half : {f16, bf16}) {
    const double unit = half == f16 ? 0x1p-11 : 0x1p-8;
    for (const AmpLevel level : {AmpLevel::O1, AmpLevel::O2}) {
      const auto work = passes::amp(g, {.level = level, .half = half});
      REQUIRE_MESSAGE(work.ok(), work.message());
      Tensors bound;
      for (const auto& [index, tensor] : leaves) {
        const uint32_t now = work->values[index].index;
        bound.emplace(now, tensor).first->second.dtype =
            static_cast<uint32_t>(work->graph.values()[now].spec.dtype);
      }
      const double error = error_of(g, expected, work->graph, run_rounded(work->graph, bound));
      CAPTURE(name(half));
      CAPTURE(error / unit);
      CHECK(error < 16 * unit);
      CHECK(error > unit / 16);
    }
  }
}
