// SPDX-License-Identifier: Apache-2.0
// products.hpp: products of matrices by one engine against sums in double, and what is computed on them before they are written.
//
// Invariant: a result may be off by its own rounding, by depth units of Σ|a·b| in f32, and by what its activation may be.
#pragma once

#include "tensors.hpp"

#include <cmath>
#include <functional>

namespace cpu_test {

// What computes products, and how far off its activations may be, of their value.
struct Engine {
  uint32_t dtype;
  const char* name;
  double activation_error;
};

struct Product {
  int64_t m, k, n;
  bool turn_a = false, turn_b = false;
};

inline std::vector<double> doubles(const Tensor& tensor) {
  std::vector<double> out;
  for_each(tensor.dims, [&](const Dims& at) { out.push_back(static_cast<double>(tensor.at(at))); });
  return out;
}

// Sums of an output's element, and of its terms' sizes.
struct Sums {
  std::vector<double> value, size;
};

inline Sums sums_of(const Product& p, const Tensor& a, const Tensor& b) {
  const std::vector<double> x = doubles(a), y = doubles(b);
  Sums out{std::vector<double>(static_cast<size_t>(p.m * p.n)), {}};
  out.size = out.value;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t k = 0; k < p.k; ++k) {
      const double left = x[static_cast<size_t>(p.turn_a ? k * p.m + i : i * p.k + k)];
      for (int64_t j = 0; j < p.n; ++j) {
        const double term = left * y[static_cast<size_t>(p.turn_b ? j * p.k + k : k * p.n + j)];
        const auto at = static_cast<size_t>(i * p.n + j);
        out.value[at] += term;
        out.size[at] += std::fabs(term);
      }
    }
  }
  return out;
}

inline Dims dims_a(const Product& p) { return p.turn_a ? Dims{p.k, p.m} : Dims{p.m, p.k}; }
inline Dims dims_b(const Product& p) { return p.turn_b ? Dims{p.n, p.k} : Dims{p.k, p.n}; }

inline void add_product(FragmentBuilder& f, const Product& p, uint32_t a, uint32_t b, uint32_t c) {
  f.node(TN_OP_matmul, {a, b}, {c}).integer("transpose_a", p.turn_a).integer("transpose_b", p.turn_b);
}

inline Kernel compile_product(const Bench& bench, uint32_t dtype, const Product& p) {
  FragmentBuilder f;
  const uint32_t a = f.input(dtype, dims_a(p)), b = f.input(dtype, dims_b(p));
  add_product(f, p, a, b, f.output(dtype, {p.m, p.n}));
  return compile(bench.device, f.fragment());
}

inline std::string words(const Product& p) {
  return std::to_string(p.m) + " x " + std::to_string(p.k) + " x " + std::to_string(p.n) +
         (p.turn_a ? " a turned" : "") + (p.turn_b ? " b turned" : "");
}

// How many elements are further off than they may be.
inline int64_t wrong(const Product& p, const Sums& sums, const Tensor& c) {
  int64_t out = 0;
  for (int64_t i = 0; i < p.m * p.n; ++i) {
    const auto at = static_cast<size_t>(i);
    const Number slack = sums.size[at] * static_cast<double>(p.k) * 0x1p-24;
    if (!close(c.at({i / p.n, i % p.n}), sums.value[at], c.dtype, 0.5001L, slack)) ++out;
  }
  return out;
}

inline void check(Bench& bench, const Engine& engine, const Product& p, Random& random) {
  const uint32_t dtype = engine.dtype;
  Tensor a(dtype, dims_a(p)), b(dtype, dims_b(p)), c(dtype, {p.m, p.n});
  randomize(a, random, false);
  randomize(b, random, false);
  const Kernel kernel = compile_product(bench, dtype, p);
  REQUIRE(std::string(info(kernel).engine) == engine.name);
  bench.run(kernel, {&a, &b}, {&c});
  const int64_t off = wrong(p, sums_of(p, a, b), c);
  if (off != 0) FAIL_CHECK(words(p) << ": " << off << " elements are off");
}

inline double activated(uint32_t op, bool tanh_form, double x) {
  switch (op) {
    case TN_OP_relu:
      return x < 0 ? 0 : x;
    case TN_OP_gelu:
      return tanh_form ? x / (1 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))
                       : 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case TN_OP_sigmoid:
      return 1 / (1 + std::exp(-x));
    case TN_OP_tanh:
      return std::tanh(x);
    case TN_OP_silu:
      return x / (1 + std::exp(-x));
    default:
      return x;
  }
}

struct After {
  bool bias, residual;
  uint32_t op;
  bool tanh_form;
};

inline void check_after(Bench& bench, const Engine& engine, const Product& p, const After& after,
                        Random& random) {
  const uint32_t dtype = engine.dtype;
  Tensor a(dtype, dims_a(p)), b(dtype, dims_b(p)), bias(dtype, {p.n}), residual(dtype, {p.m, p.n}),
      c(dtype, {p.m, p.n});
  std::vector<const Tensor*> inputs{&a, &b};
  FragmentBuilder f;
  const uint32_t ia = f.input(dtype, a.dims), ib = f.input(dtype, b.dims);
  std::vector<std::function<uint32_t(uint32_t, uint32_t)>> nodes;
  const auto plus = [&](const Tensor& other) {
    inputs.push_back(&other);
    nodes.push_back([&f, in = f.input(dtype, other.dims)](uint32_t x, uint32_t y) {
      f.node(TN_OP_add, {x, in}, {y});
      return y;
    });
  };
  if (after.bias) plus(bias);
  if (after.residual) plus(residual);
  if (after.op != TN_OP_identity) {
    nodes.push_back([&](uint32_t x, uint32_t y) {
      auto& node = f.node(after.op, {x}, {y});
      if (after.op == TN_OP_gelu) node.integer("tanh", after.tanh_form);
      return y;
    });
  }
  const auto next = [&](bool last) { return last ? f.output(dtype, c.dims) : f.tensor(dtype, c.dims); };
  uint32_t value = next(nodes.empty());
  add_product(f, p, ia, ib, value);
  for (size_t i = 0; i < nodes.size(); ++i) value = nodes[i](value, next(i + 1 == nodes.size()));
  for (Tensor* tensor : {&a, &b, &bias, &residual}) randomize(*tensor, random, false);
  const Kernel kernel = compile(bench.device, f.fragment());
  REQUIRE(std::string(info(kernel).engine) == engine.name);
  bench.run(kernel, inputs, {&c});
  const Sums sums = sums_of(p, a, b);
  int64_t off = 0;
  for_each(c.dims, [&](const Dims& at) {
    const auto i = static_cast<size_t>(at[0] * p.n + at[1]);
    double x = sums.value[i], size = sums.size[i];
    if (after.bias) x += static_cast<double>(bias.at({at[1]}));
    if (after.residual) x += static_cast<double>(residual.at(at));
    const double expected = activated(after.op, after.tanh_form, x);
    // No activation is steeper than 1.13; their own error is the engine's.
    const Number slack = 1.13 * (size + std::fabs(x)) * static_cast<double>(p.k + 2) * 0x1p-24 +
                         engine.activation_error * std::fabs(expected);
    if (!close(c.at(at), expected, dtype, 0.51L, slack)) ++off;
  });
  CAPTURE(after.op);
  CAPTURE(after.tanh_form);
  if (off != 0) FAIL_CHECK(words(p) << ": " << off << " elements are off");
}

}  // namespace cpu_test
