// SPDX-License-Identifier: Apache-2.0
// layer.hpp: chains of nodes under construction, and whether one step gives what they give one by one.
//
// Operands are small whole numbers, so products and sums of them are exact in every type and any order: what is kept in its
// own arithmetic is compared bit for bit. Only oneDNN's own activations have a bound. Whoever includes this compiles alone.
#pragma once

#include "nodes.hpp"
#include "onednn.hpp"

#include <algorithm>

namespace cpu_test {

inline constexpr size_t absent = Nodes::absent;

inline size_t whole_numbers(Nodes& n, Random& random, uint32_t dtype, const Dims& dims, int most = 2,
                            const Dims& strides = {}) {
  const size_t index = n.input(random, dtype, dims, strides);
  for_each(dims, [&](const Dims& at) {
    n.values[index].set(at, static_cast<Number>(static_cast<int>(random() % (2 * most + 1)) - most));
  });
  return index;
}

inline size_t word(Nodes& n, uint64_t value) {
  const size_t index = n.value(TN_DTYPE_u64, {});
  std::memcpy(n.values[index].bytes.data(), &value, sizeof value);
  n.inputs.push_back(index);
  return index;
}

// A chain of nodes under construction: each takes the value before it.
struct Layer {
  Nodes n{};
  Random& random;
  uint32_t dtype;
  Dims dims;
  size_t value = absent;

  size_t add_node(uint32_t op, std::vector<size_t> in) {
    value = n.value(dtype, dims);
    n.nodes.push_back({op, std::move(in), {value}});
    return value;
  }
  // The value before is wanted outside, too.
  Layer& keep() {
    n.wanted.push_back(value);
    return *this;
  }
  Layer& start() {
    value = whole_numbers(n, random, dtype, dims);
    return *this;
  }
  // Depth 24, so the greatest sum is 96.
  Layer& product(bool turned_a = false, bool turned_b = false) {
    Dims a = dims;
    a.back() = 24;
    if (turned_a) std::swap(a[a.size() - 2], a.back());
    const size_t x = whole_numbers(n, random, dtype, a),
                 w = whole_numbers(n, random, dtype, turned_b ? Dims{dims.back(), 24} : Dims{24, dims.back()},
                                   1);
    add_node(TN_OP_matmul, {x, w});
    n.nodes.back().integers = {{"transpose_a", turned_a}, {"transpose_b", turned_b}};
    return *this;
  }
  Layer& bias() {
    const size_t b = whole_numbers(n, random, dtype, {dims.back()});
    add_node(TN_OP_add, {value, b});
    return *this;
  }
  // With an operand of the same shape.
  Layer& with(uint32_t op) {
    const size_t r = whole_numbers(n, random, dtype, dims);
    add_node(op, {r, value});
    return *this;
  }
  Layer& residual() { return with(TN_OP_add); }
  Layer& times() { return with(TN_OP_mul); }
  Layer& act(uint32_t op) {
    add_node(op, {value});
    if (op == TN_OP_gelu) n.nodes.back().integers = {{"tanh", 1}};
    return *this;
  }
  Layer& act_grad(uint32_t op) {
    const size_t y = n.input(random, dtype, dims, {}, -2, 2);
    add_node(op, {value, y});
    if (op == TN_OP_gelu_grad) n.nodes.back().integers = {{"tanh", 0}};
    return *this;
  }
  Layer& dropout(double rate = 0.25) {
    const size_t seed = word(n, random()), offset = word(n, random());
    add_node(TN_OP_dropout, {value, seed, offset});
    n.nodes.back().integers = {{"key", 7}};
    n.nodes.back().reals = {{"rate", rate}};
    return *this;
  }
  Layer& reduce(uint32_t op, std::vector<int64_t> axes) {
    Dims left;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) left.push_back(dims[i]);
    }
    const size_t made = n.value(dtype, left);
    n.nodes.push_back({op, {value}, {made}, {{"keepdims", 0}}, {}, {{"axes", std::move(axes)}}});
    n.wanted.push_back(made);
    return *this;
  }
  Layer& scaled(double by) {
    add_node(TN_OP_scale, {value});
    n.nodes.back().reals = {{"scale", by}, {"bias", 0}};
    return *this;
  }
  Layer& cast(uint32_t to) {
    dtype = to;
    add_node(TN_OP_cast, {value});
    n.nodes.back().to = to;
    return *this;
  }
  Layer& shares(uint32_t op, int64_t axis = -1) {
    add_node(op, op == TN_OP_softmax_grad ? std::vector<size_t>{value, n.input(random, dtype, dims, {}, 0, 1)}
                                          : std::vector<size_t>{value});
    n.nodes.back().integers = {{"axis", axis}};
    return *this;
  }
  // Of labels some of which name no class.
  Layer& loss() {
    const Dims rows{dims.front()};
    const size_t labels = whole_numbers(n, random, TN_DTYPE_i64, rows, static_cast<int>(dims.back()));
    const size_t losses = n.value(TN_DTYPE_f32, rows), sums = n.value(TN_DTYPE_f32, rows);
    n.nodes.push_back({TN_OP_cross_entropy, {value, labels}, {losses, sums}, {{"ignore_index", 1}}});
    n.wanted.push_back(sums);
    value = losses;
    return *this;
  }
  Layer& loss_grad() {
    const Dims rows{dims.front()};
    const size_t labels = whole_numbers(n, random, TN_DTYPE_i64, rows, static_cast<int>(dims.back()));
    const size_t sums = n.input(random, TN_DTYPE_f32, rows, {}, 4, 9),
                 dloss = n.input(random, TN_DTYPE_f32, rows);
    add_node(TN_OP_cross_entropy_grad, {value, labels, sums, dloss});
    n.nodes.back().integers = {{"ignore_index", 1}};
    return *this;
  }
  Layer& norm(bool centred = true) {
    const uint32_t own = dtype == TN_DTYPE_f64 ? TN_DTYPE_f64 : TN_DTYPE_f32;
    const size_t scale = n.input(random, own, {dims.back()});
    const Dims rows(dims.begin(), dims.end() - 1);
    const size_t y = n.value(dtype, dims);
    NodeOf node{centred ? uint32_t{TN_OP_layer_norm} : uint32_t{TN_OP_rms_norm}, {value, scale}, {y}};
    if (centred) {
      node.in.push_back(n.input(random, own, {dims.back()}));
      node.out.push_back(n.value(own, rows));
      n.wanted.push_back(node.out.back());
    }
    node.out.push_back(n.value(own, rows));
    n.wanted.push_back(node.out.back());
    node.integers = {{"axes", 1}};
    node.reals = {{"epsilon", 1e-5}};
    n.nodes.push_back(std::move(node));
    value = y;
    return *this;
  }
};

inline tn_support asked(Bench& bench, const Nodes& n) {
  FragmentBuilder f("asked");
  n.describe(f);
  return supports(bench.device, f.fragment());
}

enum class Agree { bits, sums, onednn };

// One step, and the numbers of the nodes one by one.
inline void check(Bench& bench, Layer& layer, Agree agree, const char* name) {
  Nodes& n = layer.n;
  if (std::find(n.wanted.begin(), n.wanted.end(), layer.value) == n.wanted.end())
    n.wanted.push_back(layer.value);
  CAPTURE(name);
  CAPTURE(std::string(tenon::author::dtype_name(layer.dtype)));
  const tn_support said = asked(bench, n);
  CAPTURE(std::string(said.reason));
  const bool one_step = said.verdict == TN_SUPPORT_NATIVE || said.verdict == TN_SUPPORT_CONVERTED;
  CHECK(one_step);
  const std::vector<Tensor> fused = n.run_fused(bench), apart = n.run_apart(bench);
  for (const size_t i : n.wanted) {
    CAPTURE(i);
    if (agree == Agree::bits) {
      CHECK(fused[i].bytes == apart[i].bytes);
      continue;
    }
    const Number slack = agree == Agree::sums ? 1e-9L : 64 * 0x1p-20L;
    size_t wrong = 0;
    for_each(fused[i].dims, [&](const Dims& at) {
      if (!close(fused[i].at(at), apart[i].at(at), fused[i].dtype, agree == Agree::sums ? 1 : 2, slack))
        ++wrong;
    });
    CHECK(wrong == 0);
  }
}

inline const std::vector<uint32_t> product_types = {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16};
inline const std::vector<uint32_t> float_types = {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16, TN_DTYPE_f64};

// 140 rows of 1,100 are a panel of 128 and a short one; 3 × 100 rows are one panel.
inline const std::vector<Dims> product_dims = {{140, 1100}, {3, 100, 40}, {1, 9}};

}  // namespace cpu_test
