// SPDX-License-Identifier: Apache-2.0
// workloads.cpp: the graphs, and what they move.
#include "workloads.hpp"

#include <algorithm>

namespace bench {
namespace {

using namespace tenon;
using Dims = std::vector<int64_t>;

constexpr int64_t million = 1'000'000;

double bytes_of(const TensorSpec& spec, int times) { return static_cast<double>(spec.bytes()) * times; }

// Weight, gradient and two moments are read; weight and moments are written.
Workload adam(const std::string& name, int64_t parameters) {
  Graph g(name);
  const TensorSpec all{f32, {parameters}}, scalar{f32, {}};
  const auto made = g.node(Op::adam, {g.input("w", all), g.input("g", all), g.input("m", all),
                                      g.input("v", all), g.input("rate", scalar), g.input("step", scalar)});
  for (size_t i = 0; i < 3; ++i) g.output("out" + std::to_string(i), made[i]);
  return {.name = name, .graph = std::move(g), .moved = bytes_of(all, 7), .torch = {"fused"}};
}

// Gradients are looked at, and not changed: what scales them is folded into the update.
Workload check_finite(const std::string& name, int64_t parameters) {
  Graph g(name);
  const TensorSpec all{f32, {parameters}};
  const auto made = g.node(Op::check_finite_and_unscale, {g.input("scale", {f32, {}}), g.input("g", all)});
  g.output("found_inf", made[0]);
  return {.name = name, .graph = std::move(g), .moved = bytes_of(all, 1), .torch = {"eager"}};
}

Workload batch_norm(const std::string& name, int64_t images, bool adds) {
  Graph g(name);
  const TensorSpec image{bf16, {images, 256, 56, 56}}, channel{f32, {256}};
  const auto made =
      g.node(Op::batch_norm_train, {g.input("x", image), g.input("scale", channel), g.input("bias", channel),
                                    g.input("mean", channel), g.input("variance", channel)});
  const auto y = adds ? g.add(made[0], g.input("residual", image)) : made[0];
  g.output("y", g.relu(y));
  for (size_t i = 1; i < made.size(); ++i) g.output("out" + std::to_string(i), made[i]);
  return {.name = name, .graph = std::move(g), .moved = bytes_of(image, adds ? 4 : 3), .torch = {"eager"}};
}

// As the pass `recompute` leaves it: dy and x are read, once for the sums and once for dx, and what relu gave is not.
Workload batch_norm_backward(const std::string& name, int64_t images) {
  Graph g(name);
  const TensorSpec image{bf16, {images, 256, 56, 56}}, channel{f32, {256}};
  const auto x = g.input("x", image), scale = g.input("scale", channel), mean = g.input("mean", channel),
             inverse = g.input("inv_std", channel);
  const auto y = g.batch_norm_apply(x, scale, g.input("bias", channel), mean, inverse);
  const auto dy = g.relu_grad(g.input("dy", image), y);
  const auto made = g.node(Op::batch_norm_grad, {dy, x, scale, mean, inverse});
  for (size_t i = 0; i < made.size(); ++i) g.output("out" + std::to_string(i), made[i]);
  return {.name = name, .graph = std::move(g), .moved = bytes_of(image, 5), .torch = {"eager"}};
}

Workload product(const std::string& name, int64_t rows, bool activates) {
  Graph g(name);
  const auto x = g.input("x", {bf16, {rows, 4096}}), w = g.input("w", {bf16, {4096, 16384}});
  auto y = g.matmul(x, w);
  if (activates) y = g.gelu(g.add(y, g.input("b", {bf16, {16384}})), {{"tanh", int64_t{1}}});
  g.output("y", y);
  Workload out{.name = name, .graph = std::move(g)};
  if (activates) {
    out.torch = {"eager", "compile"};
    out.beside = "gemm";
  }
  return out;
}

Workload layer_norm(const std::string& name, int64_t rows) {
  Graph g(name);
  const TensorSpec all{bf16, {rows, 4096}}, row{f32, {4096}};
  const auto made = g.node(Op::layer_norm, {g.input("x", all), g.input("scale", row), g.input("bias", row)});
  g.output("y", made[0]);
  return {.name = name, .graph = std::move(g), .moved = bytes_of(all, 2), .torch = {"eager", "compile"}};
}

Workload attention(const std::string& name, int64_t batch) {
  Graph g(name);
  const TensorSpec heads{bf16, {batch, 32, 4096, 128}};
  const auto made = g.node(Op::attention, {g.input("q", heads), g.input("k", heads), g.input("v", heads)},
                           {{"causal", int64_t{1}}, {"scale", 0.08838834764831845}});
  g.output("y", made[0]);
  return {.name = name, .graph = std::move(g), .torch = {"eager"}};
}

}  // namespace

std::vector<Workload> workloads(int64_t part) {
  const auto share = [part](int64_t of) { return std::max<int64_t>(of / part, 1); };
  std::vector<Workload> out;
  out.push_back(adam("adam/25.6M", share(25'600'000)));
  out.push_back(adam("adam/1B", share(1000 * million)));
  out.push_back(check_finite("check_finite/1B", share(1000 * million)));
  out.push_back(batch_norm("bn_relu", share(256), false));
  out.push_back(batch_norm("bn_add_relu", share(256), true));
  out.push_back(batch_norm_backward("bn_relu_backward", share(256)));
  out.push_back(product("gemm", share(8192), false));
  out.push_back(product("gemm_bias_gelu", share(8192), true));
  out.push_back(layer_norm("layer_norm", share(65536)));
  out.push_back(attention("attention", share(4)));
  return out;
}

}  // namespace bench
