// SPDX-License-Identifier: Apache-2.0
// patterns_test.cpp: what a pattern describes is one step, and gives what its nodes give one by one.
#include "layer.hpp"
#include "support/full.hpp"

#include <cmath>
#include <limits>
#include <span>

using namespace cpu_test;

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
