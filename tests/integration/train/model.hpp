// SPDX-License-Identifier: Apache-2.0
// model.hpp: a regression small enough to be trained by hand beside the device: graph, samples, and the same in double.
//
// Invariant: products are sums of products, which every build of every plugin has.
#pragma once

#include <tenon/executor.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace train_test {

using namespace tenon;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

constexpr int64_t width = 6;

inline GraphValue product(Graph& g, GraphValue x, GraphValue w, int64_t rows, int64_t from, int64_t to) {
  return g.sum(g.mul(g.reshape(x, {rows, from, 1}), g.reshape(w, {1, from, to})), {1});
}

// loss = mean over rows of (x · w + b - y)².
inline Graph regression(int64_t rows, DType dtype = f32) {
  Graph g("regression");
  const auto x = g.input("x", {dtype, {rows, width}}), y = g.input("y", {dtype, {rows, 1}});
  const auto w = g.param("w", {dtype, {width, 1}}), b = g.param("b", {dtype, {1}});
  const auto out = g.named("out").add(product(g, x, w, rows, width, 1), b);
  g.output("loss", g.named("mean_error").mean(g.named("error").square(g.sub(out, y)), {0, 1}));
  return g;
}

// Two layers, so that gradients come one after the other.
inline Graph network(int64_t rows, int64_t hidden = 5) {
  Graph g("network");
  const auto x = g.input("x", {f32, {rows, width}}), y = g.input("y", {f32, {rows, 1}});
  const auto w1 = g.param("fc1.w", {f32, {width, hidden}}), b1 = g.param("fc1.b", {f32, {hidden}});
  const auto w2 = g.param("fc2.w", {f32, {hidden, 1}}), b2 = g.param("fc2.b", {f32, {1}});
  const auto h = g.named("hidden").relu(g.add(product(g, x, w1, rows, width, hidden), b1));
  const auto out = g.named("out").add(product(g, h, w2, rows, hidden, 1), b2);
  g.output("loss", g.named("mean_error").mean(g.square(g.sub(out, y)), {0, 1}));
  g.output("guess", out);
  return g;
}

struct Samples {
  Floats x, y;
};
inline Samples samples(int64_t rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> any(-1, 1);
  Samples out{Floats(static_cast<size_t>(rows * width)), Floats(static_cast<size_t>(rows))};
  for (float& x : out.x) x = any(random);
  for (size_t row = 0; row < out.y.size(); ++row) {
    for (size_t i = 0; i < width; ++i) out.y[row] += out.x[row * width + i] * static_cast<float>(i + 1) / 4;
  }
  return out;
}

// What `regression` has for gradients, of w and then b, by the rules of school.
inline Doubles gradient(const Doubles& parameters, const Samples& given) {
  Doubles out(width + 1);
  const size_t rows = given.y.size();
  for (size_t row = 0; row < rows; ++row) {
    double error = parameters[width] - static_cast<double>(given.y[row]);
    for (size_t i = 0; i < width; ++i) error += static_cast<double>(given.x[row * width + i]) * parameters[i];
    for (size_t i = 0; i < width; ++i)
      out[i] += 2 * error * static_cast<double>(given.x[row * width + i]) / static_cast<double>(rows);
    out[width] += 2 * error / static_cast<double>(rows);
  }
  return out;
}

template <class T>
std::vector<T> as(const std::vector<std::byte>& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(out.data()));
  return out;
}
inline std::span<const std::byte> bytes_of(const Floats& numbers) {
  return std::as_bytes(std::span(numbers));
}

// Numbers for every weight, and what initialize gives the rest.
inline Status begin(Executor& executor, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> any(-0.5f, 0.5f);
  for (const Executor::Lasting& one : executor.lasting()) {
    const auto& trained = executor.step().trained;
    if (one.spec.dtype != f32 || std::find(trained.begin(), trained.end(), one.name) == trained.end())
      continue;
    Floats numbers(one.spec.elements());
    for (float& x : numbers) x = any(random);
    TN_TRY(executor.set(one.name, bytes_of(numbers)));
  }
  return executor.initialize(seed);
}

// All that lasts, by name.
using Everything = std::map<std::string, std::vector<std::byte>>;
inline Result<Everything> everything(Executor& executor) {
  Everything out;
  for (const Executor::Lasting& one : executor.lasting()) out[one.name] = TN_TRY(executor.get(one.name));
  return out;
}

}  // namespace train_test
