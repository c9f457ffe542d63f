// SPDX-License-Identifier: Apache-2.0
// Parameters begin by what reads them, the same for the same seed and name, whatever else the model has.
#include <tenon/training.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>

using namespace tenon;

namespace {

std::map<std::string, std::vector<float>> begun(const Graph& g, uint64_t seed) {
  std::map<std::string, std::vector<float>> out;
  for (const InitialValue& value : initial_values(g, seed)) {
    auto& numbers = out[value.param];
    numbers.resize(value.bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), value.bytes.data(), value.bytes.size());
  }
  return out;
}

double deviation(const std::vector<float>& numbers) {
  double sum = 0, squares = 0;
  for (const float x : numbers) {
    sum += static_cast<double>(x);
    squares += static_cast<double>(x) * static_cast<double>(x);
  }
  const double n = static_cast<double>(numbers.size());
  return std::sqrt(squares / n - sum / n * sum / n);
}

Graph network(bool rectified) {
  Graph g("network");
  const auto x = g.input("x", {f32, {2, 3, 8, 8}});
  const auto w = g.param("conv.w", {f32, {64, 3, 3, 3}});
  const auto scale = g.param("bn.scale", {f32, {64}}), bias = g.param("bn.bias", {f32, {64}});
  const auto mean = g.param("bn.mean", {f32, {64}}), var = g.param("bn.var", {f32, {64}});
  auto h = g.batch_norm_train(g.conv2d(x, w), scale, bias, mean, var)[0];
  if (rectified) h = g.relu(h);
  const auto fc = g.param("fc.w", {f32, {64, 100}});
  g.output("y", g.matmul(g.mean(h, {2, 3}), fc));
  const auto table = g.param("table", {f32, {500, 20}});
  g.output("rows", g.embedding(g.input("at", {i64, {4}}), table));
  return g;
}

}  // namespace

TEST_CASE("initial: variance by inputs, or by both where nothing rectifies, scales and variances are 1") {
  const auto with = begun(network(true), 1), without = begun(network(false), 1);
  CHECK(deviation(with.at("conv.w")) == doctest::Approx(std::sqrt(2.0 / 27)).epsilon(0.05));
  CHECK(deviation(without.at("conv.w")) == doctest::Approx(std::sqrt(2.0 / (27 + 576))).epsilon(0.05));
  CHECK(deviation(with.at("fc.w")) == doctest::Approx(std::sqrt(2.0 / 164)).epsilon(0.05));
  CHECK(deviation(with.at("table")) == doctest::Approx(0.02).epsilon(0.05));
  for (const char* one : {"bn.scale", "bn.var"}) CHECK(with.at(one) == std::vector<float>(64, 1.0f));
  for (const char* nothing : {"bn.bias", "bn.mean"}) CHECK(with.at(nothing) == std::vector<float>(64, 0.0f));
}

TEST_CASE("initial: a seed and a name give the same numbers in any model") {
  const auto first = begun(network(true), 1), again = begun(network(true), 1),
             other = begun(network(true), 2);
  CHECK(first == again);
  CHECK(first.at("fc.w") != other.at("fc.w"));
  CHECK(begun(network(false), 1).at("table") == first.at("table"));
}
