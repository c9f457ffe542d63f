// SPDX-License-Identifier: Apache-2.0
// patterns_test.cpp: what a pattern describes is one step, and gives what its nodes give one by one.
//
// Operands are small whole numbers, so products and sums of them are exact in every type and any order: what is kept in its
// own arithmetic is compared bit for bit. Only oneDNN's own activations have a bound.
#include "nodes.hpp"
#include "onednn.hpp"
#include "support/full.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

using namespace cpu_test;

namespace {

constexpr size_t absent = Nodes::absent;

size_t whole_numbers(Nodes& n, Random& random, uint32_t dtype, const Dims& dims, int most = 2,
                     const Dims& strides = {}) {
  const size_t index = n.input(random, dtype, dims, strides);
  for_each(dims, [&](const Dims& at) {
    n.values[index].set(at, static_cast<Number>(static_cast<int>(random() % (2 * most + 1)) - most));
  });
  return index;
}

size_t word(Nodes& n, uint64_t value) {
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

tn_support asked(Bench& bench, const Nodes& n) {
  FragmentBuilder f("asked");
  n.describe(f);
  return supports(bench.device, f.fragment());
}

enum class Agree { bits, sums, onednn };

// One step, and the numbers of the nodes one by one.
void check(Bench& bench, Layer& layer, Agree agree, const char* name) {
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

const std::vector<uint32_t> product_types = {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16};
const std::vector<uint32_t> float_types = {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16, TN_DTYPE_f64};

// 140 rows of 1,100 are a panel of 128 and a short one; 3 × 100 rows are one panel.
const std::vector<Dims> product_dims = {{140, 1100}, {3, 100, 40}, {1, 9}};

}  // namespace

TEST_CASE("gemm_epilogue: an activation's input that is wanted too is written on the way") {
  Bench bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  Random random(tenon::test::seed());
  for (const uint32_t dtype : product_types) {
    for (const Dims& dims : product_dims) {
      for (const uint32_t op : {TN_OP_relu, TN_OP_gelu, TN_OP_sigmoid, TN_OP_tanh, TN_OP_silu}) {
        if (dims == product_dims[0] && op != TN_OP_gelu) continue;  // what takes long, once
        Layer layer{.random = random, .dtype = dtype, .dims = dims};
        layer.product().bias().keep().act(op);
        check(bench, layer, Agree::bits, "bias kept");
      }
      Layer turned{.random = random, .dtype = dtype, .dims = dims};
      turned.product(dims.size() == 2, true).keep().bias().residual().keep().act(TN_OP_gelu);
      check(bench, turned, Agree::bits, "turned operands, product and residual kept");
    }
  }
}

TEST_CASE("gemm_epilogue: a NaN comes out of every activation, also of a single column") {
  Bench bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  Random random(1);
  for (const uint32_t dtype : product_types) {
    for (const int64_t columns : {1, 33}) {
      for (const uint32_t op : {TN_OP_relu, TN_OP_gelu, TN_OP_sigmoid, TN_OP_tanh, TN_OP_silu}) {
        CAPTURE(op);
        Layer layer{.random = random, .dtype = dtype, .dims = {2, columns}};
        layer.product().bias().act(op);
        layer.n.values[layer.n.inputs[0]].set({1, 5}, std::numeric_limits<Number>::quiet_NaN());
        layer.n.wanted.push_back(layer.value);
        const Tensor y = layer.n.run_fused(bench)[layer.value];
        for (int64_t i = 0; i < columns; ++i) CHECK((!std::isnan(y.at({0, i})) && std::isnan(y.at({1, i}))));
      }
    }
  }
}

// Engines of oneDNN whose activations are plain C++ are behind these: two groups, and one channel.
TEST_CASE("conv_bias_act: a NaN comes out of every activation, whoever computes the convolution") {
  Bench bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  Random random(1);
  for (const auto& [groups, channels] : {std::pair<int64_t, int64_t>{1, 1}, {2, 16}, {1, 16}}) {
    for (const bool last : {false, true}) {
      for (const uint32_t op : {TN_OP_relu, TN_OP_gelu, TN_OP_sigmoid, TN_OP_tanh, TN_OP_silu}) {
        CAPTURE(op);
        const Dims image{1, 16, 9, 9}, result{1, channels, 9, 9};
        const auto lying = [&](const Dims& d) {
          return last ? Dims{d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]} : Dims{};
        };
        Nodes n;
        const size_t x = n.input(random, TN_DTYPE_f32, image, lying(image)),
                     w = n.input(random, TN_DTYPE_f32, {channels, 16 / groups, 1, 1}),
                     b = n.input(random, TN_DTYPE_f32, {channels, 1, 1});
        n.values[b].set({0, 0, 0}, std::numeric_limits<Number>::quiet_NaN());
        const size_t c = n.value(TN_DTYPE_f32, result), sum = n.value(TN_DTYPE_f32, result),
                     y = n.value(TN_DTYPE_f32, result, lying(result));
        NodeOf conv{TN_OP_conv2d, {x, w}, {c}, {{"groups", groups}}};
        conv.lists = {{"stride", {1, 1}}, {"pad", {0, 0, 0, 0}}, {"dilation", {1, 1}}};
        n.nodes = {conv, {TN_OP_add, {c, b}, {sum}}, {op, {sum}, {y}}};
        if (op == TN_OP_gelu) n.nodes.back().integers = {{"tanh", 1}};
        n.wanted = {y};
        CHECK(std::isnan(n.run_fused(bench)[y].at({0, 0, 4, 4})));
      }
    }
  }
}

TEST_CASE("gemm_norm: a product with its bias, its residual and the normalisation of their sum") {
  Bench bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  Random random(tenon::test::seed());
  for (const uint32_t dtype : product_types) {
    for (const Dims& dims : product_dims) {
      for (const bool centred : {true, false}) {
        Layer kept{.random = random, .dtype = dtype, .dims = dims}, plain = kept;
        kept.product().bias().residual().keep().norm(centred);
        check(bench, kept, Agree::bits, "residual kept");
        plain.product().norm(centred);
        check(bench, plain, Agree::bits, "product alone");
      }
    }
  }
}

TEST_CASE("gemm_dropout: a layer thinned, added to what went round it and normalised keeps every draw") {
  Bench bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  Random random(tenon::test::seed());
  for (const uint32_t dtype : product_types) {
    for (const Dims& dims : product_dims) {
      const Layer empty{.random = random, .dtype = dtype, .dims = dims};
      Layer thin = empty, kept = empty, whole = empty, normed = empty, soft = empty;
      thin.product().bias().act(TN_OP_relu).dropout();
      check(bench, thin, Agree::bits, "relu, dropout");
      kept.product().bias().keep().act(TN_OP_gelu).keep().dropout().keep();
      check(bench, kept, Agree::bits, "all kept");
      whole.product().bias().dropout(0.5).residual();
      check(bench, whole, Agree::bits, "dropout, residual");
      normed.product().bias().dropout(0.1).residual().keep().norm();
      check(bench, normed, Agree::bits, "dropout, residual, layer_norm");
      soft.product().bias().act(TN_OP_gelu).dropout();
      check(bench, soft, Agree::onednn, "oneDNN's gelu, dropout");
    }
  }
}

TEST_CASE(
    "gemm_epilogue_backward: a product, thinned, through an activation's gradient, summed for the bias") {
  Bench bench;
  const bool products = has_onednn(bench.device);
  Random random(tenon::test::seed());
  std::vector<uint32_t> ops{TN_OP_relu_grad, TN_OP_gelu_grad, TN_OP_sigmoid_grad, TN_OP_tanh_grad,
                            TN_OP_silu_grad};
  const auto of_each = tenon::test::full_numbers_or<size_t>("activations of each type", 1, ops.size());
  for (const uint32_t dtype : float_types) {
    std::shuffle(ops.begin(), ops.end(), random);
    for (const uint32_t op : std::span(ops).first(of_each)) {
      const Layer empty{.random = random, .dtype = dtype, .dims = {140, 1100}};
      Layer alone = empty, thinned = empty, joined = empty, whole = empty;
      alone.start().act_grad(op).keep().reduce(TN_OP_sum, {0});
      check(bench, alone, Agree::sums, "gradient and bias gradient");
      thinned.start().dropout().keep().act_grad(op).reduce(TN_OP_sum, {0});
      check(bench, thinned, Agree::sums, "with dropout");
      if (!products || dtype == TN_DTYPE_f64) continue;
      joined.product(false, true).act_grad(op).reduce(TN_OP_sum, {0});
      check(bench, joined, Agree::sums, "with the product");
      whole.product(false, true).dropout().keep().act_grad(op);
      check(bench, whole, Agree::bits, "with product and dropout, no sum");
    }
  }
}

TEST_CASE("pass: elementwise nodes with dropout among them and reductions behind them, whatever the axes") {
  Bench bench;
  Random random(tenon::test::seed());
  const std::vector<std::vector<int64_t>> axes = {{0}, {1}, {3}, {0, 2, 3}, {1, 2}, {2, 3}, {0, 1, 2, 3}};
  for (const uint32_t dtype : float_types) {
    for (const Dims& dims :
         {Dims{3, 5, 7, 9}, Dims{2, 32, 20, 20}, Dims{1, 1, 20'000, 1}, Dims{64, 1, 1, 33}}) {
      const bool large = dims[2] > 10;  // more than one chunk: once for halves, once for the rest
      if (large && (dtype == TN_DTYPE_f16 || dtype == TN_DTYPE_f64)) continue;
      for (const std::vector<int64_t>& over : axes) {
        const Layer empty{.random = random, .dtype = dtype, .dims = dims};
        Layer sums = empty, most = empty;
        sums.start().act(TN_OP_tanh).dropout().keep().reduce(TN_OP_sum, over).reduce(TN_OP_mean, over);
        check(bench, sums, Agree::sums, "sum and mean");
        most.start().residual().keep().reduce(TN_OP_reduce_max, over).reduce(TN_OP_reduce_min, over);
        check(bench, most, Agree::bits, "greatest and least");
      }
    }
  }
}

TEST_CASE("pass: many values at once take turns in L1, and equal their nodes") {
  Bench bench;
  Random random(tenon::test::seed());
  for (const uint32_t dtype : float_types) {
    Layer layer{.random = random, .dtype = dtype, .dims = {70, 90}};
    layer.start();
    for (int i = 0; i < 12; ++i)
      layer.act(i % 2 == 0 ? TN_OP_tanh : TN_OP_relu).dropout(0.125).bias().residual();
    layer.reduce(TN_OP_sum, {1});
    check(bench, layer, Agree::sums, "48 nodes");
  }
}

TEST_CASE("dropout_add_norm: dropout, a residual and a normalisation, with operands that repeat") {
  Bench bench;
  Random random(tenon::test::seed());
  for (const uint32_t dtype : float_types) {
    for (const Dims& dims : {Dims{40, 33}, Dims{2, 20, 1100}}) {
      for (const bool centred : {true, false}) {
        const Layer empty{.random = random, .dtype = dtype, .dims = dims};
        Layer layer = empty, added = empty;
        layer.start().dropout().keep().residual().keep().norm(centred);
        check(bench, layer, Agree::bits, "dropout, residual, norm");
        added.start().bias().keep().norm(centred).dropout();
        check(bench, added, Agree::bits, "a bias before, dropout behind");
      }
    }
  }
}

TEST_CASE("softmax_row: shares of scores that are scaled and masked, and what is made of them, both ways") {
  Bench bench;
  Random random(tenon::test::seed());
  for (const uint32_t dtype : float_types) {
    for (const Dims& dims : {Dims{40, 33}, Dims{2, 3, 20, 300}}) {
      for (const uint32_t op : {TN_OP_softmax, TN_OP_log_softmax}) {
        const Layer empty{.random = random, .dtype = dtype, .dims = dims};
        Layer masked = empty, kept = empty, across = empty;
        masked.start().scaled(0.125).bias().shares(op).keep().dropout();
        check(bench, masked, Agree::bits, "scale, mask, dropout");
        kept.start().scaled(0.5).keep().residual().keep().shares(op).keep().times().dropout();
        check(bench, kept, Agree::bits, "all kept, a product behind");
        across.start().scaled(0.125).residual().shares(op, 0).times();
        check(bench, across, Agree::bits, "along the first axis");
      }
      const Layer empty{.random = random, .dtype = dtype, .dims = dims};
      Layer back = empty;
      back.start().dropout().times().keep().shares(TN_OP_softmax_grad).keep().scaled(0.125);
      check(bench, back, Agree::bits, "the way back");
      if (dtype == TN_DTYPE_f64) continue;
      const Layer half{.random = random, .dtype = TN_DTYPE_bf16, .dims = dims};
      Layer wide = half;
      wide.start().cast(dtype).bias().shares(TN_OP_softmax).keep().cast(TN_DTYPE_f16);
      check(bench, wide, Agree::bits, "types that change");
    }
  }
}

TEST_CASE("loss_row: losses of scores that are made on the way, and gradients that go on from there") {
  Bench bench;
  Random random(tenon::test::seed());
  for (const uint32_t dtype : float_types) {
    for (const Dims& dims : {Dims{40, 33}, Dims{33, 33}, Dims{5, 1100}}) {
      const Layer empty{.random = random, .dtype = dtype, .dims = dims};
      Layer plain = empty, kept = empty, back = empty;
      plain.start().scaled(0.5).bias().loss();
      check(bench, plain, Agree::bits, "scale, bias");
      kept.start().scaled(0.5).keep().residual().keep().loss();
      check(bench, kept, Agree::bits, "scores kept");
      back.start().scaled(0.5).bias().keep().loss_grad().keep().scaled(4);
      check(bench, back, Agree::bits, "the way back");
      if (dtype == TN_DTYPE_f64) continue;
      Layer wide{.random = random, .dtype = dtype, .dims = dims}, narrow = wide;
      wide.start().cast(TN_DTYPE_f32).loss();
      check(bench, wide, Agree::bits, "widened scores");
      narrow.start().cast(TN_DTYPE_f32).loss_grad().cast(dtype);
      check(bench, narrow, Agree::bits, "a narrowed gradient");
    }
  }
}

TEST_CASE("loss_row: what stands behind a loss is another step, whatever its shape") {
  Bench bench;
  Random random(1);
  Layer layer{.random = random, .dtype = TN_DTYPE_f32, .dims = {7, 7}};
  layer.start().scaled(2).loss();
  layer.residual();  // [7] repeats over [7,7]
  layer.n.wanted.push_back(layer.value);
  CHECK(asked(bench, layer.n).verdict == TN_SUPPORT_EMULATED);
  const std::vector<Tensor> fused = layer.n.run_fused(bench), apart = layer.n.run_apart(bench);
  for (const size_t i : layer.n.wanted) CHECK(fused[i].bytes == apart[i].bytes);
}

TEST_CASE("gemm_softmax: a product with its bias and its mask, and the shares or losses of its rows") {
  Bench bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  Random random(tenon::test::seed());
  for (const uint32_t dtype : product_types) {
    for (const Dims& dims : product_dims) {
      const Layer empty{.random = random, .dtype = dtype, .dims = dims};
      Layer masked = empty, kept = empty, lost = empty;
      masked.product().bias().residual().shares(TN_OP_softmax);
      check(bench, masked, Agree::bits, "bias, mask, shares");
      kept.product().keep().bias().keep().shares(TN_OP_log_softmax);
      check(bench, kept, Agree::bits, "all kept");
      if (dims.size() > 2) continue;
      lost.product().bias().keep().loss();
      check(bench, lost, Agree::bits, "losses");
    }
  }
}

TEST_CASE("norm_backward_add: the gradient of a normalisation joins the one that went round it") {
  Bench bench;
  Random random(tenon::test::seed());
  for (const uint32_t dtype : float_types) {
    const uint32_t own = dtype == TN_DTYPE_f64 ? TN_DTYPE_f64 : TN_DTYPE_f32;
    Layer layer{.random = random, .dtype = dtype, .dims = {50, 70}};
    Nodes& n = layer.n;
    const size_t dy = whole_numbers(n, random, dtype, {50, 70}),
                 x = whole_numbers(n, random, dtype, {50, 70}), scale = n.input(random, own, {70}),
                 mean = n.input(random, own, {50}), inverse = n.input(random, own, {50}, {}, 0.5, 2);
    layer.value = n.value(dtype, {50, 70});
    const size_t dscale = n.value(own, {70}), dbias = n.value(own, {70});
    n.nodes.push_back(
        {TN_OP_layer_norm_grad, {dy, x, scale, mean, inverse}, {layer.value, dscale, dbias}, {{"axes", 1}}});
    n.wanted = {dscale, dbias};
    layer.keep().residual();
    check(bench, layer, Agree::bits, "norm_backward_add");
  }
}

TEST_CASE("pass: more sums than fit beside a pass are refused with their number") {
  Bench bench;
  Random random(1);
  Layer layer{.random = random, .dtype = TN_DTYPE_f32, .dims = {2, 20'000}};
  layer.start().act(TN_OP_tanh).reduce(TN_OP_sum, {0});
  const tn_support said = asked(bench, layer.n);
  CHECK(said.verdict == TN_SUPPORT_EMULATED);
  CHECK(std::string(said.reason)
            .find("has 20000 sums under way at once, and at most 16384 fit beside a pass") !=
        std::string::npos);
}

TEST_CASE("panels: a batch of right operands is refused by that name") {
  Bench bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  Random random(1);
  Layer layer{.random = random, .dtype = TN_DTYPE_f32, .dims = {2, 5, 7}};
  const size_t x = whole_numbers(layer.n, random, TN_DTYPE_f32, {2, 5, 3}),
               w = whole_numbers(layer.n, random, TN_DTYPE_f32, {2, 3, 7});
  layer.add_node(TN_OP_matmul, {x, w});
  layer.n.nodes.back().integers = {{"transpose_a", 0}, {"transpose_b", 0}};
  layer.keep().norm();
  layer.n.wanted.push_back(layer.value);
  const tn_support said = asked(bench, layer.n);
  CHECK(said.verdict == TN_SUPPORT_EMULATED);
  CHECK(std::string(said.reason).find("the product's right operand is a batch") != std::string::npos);
}
