// SPDX-License-Identifier: Apache-2.0
// row_patterns_test.cpp: rows to shares and losses, with what stands around them, are one step, and give what their nodes give.
#include "layer.hpp"

using namespace cpu_test;

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
