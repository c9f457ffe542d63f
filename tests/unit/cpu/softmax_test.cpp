// SPDX-License-Identifier: Apache-2.0
// softmax_test.cpp: softmax along any axis and in one step with its neighbours, its corners, and the loss made of it.
//
// Invariant: expected values are long double, independent of the plugin's exponentials.
#include "nodes.hpp"

using namespace cpu_test;

namespace {

constexpr Number infinity = std::numeric_limits<Number>::infinity();

// One row through softmax or log_softmax.
Tensor of_row(Bench& bench, uint32_t op, uint32_t dtype, const std::vector<Number>& row) {
  const Dims dims = {1, static_cast<int64_t>(row.size())};
  FragmentBuilder f;
  const uint32_t in = f.input(dtype, dims), out = f.output(dtype, dims);
  f.node(op, {in}, {out}).integer("axis", -1);
  Tensor x(dtype, dims), y(dtype, dims);
  for (size_t i = 0; i < row.size(); ++i) x.set({0, static_cast<int64_t>(i)}, row[i]);
  bench.run(compile(bench.device, f.fragment()), {&x}, {&y});
  return y;
}

}  // namespace

TEST_CASE("softmax: between elementwise nodes in one step it equals its parts, bit for bit") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16, TN_DTYPE_f64}) {
    for (const Dims& dims : {Dims{5, 77}, Dims{2, 3, 2050}, Dims{40, 1}}) {
      for (int64_t axis = 0; axis < static_cast<int64_t>(dims.size()); ++axis) {
        Nodes g;
        const size_t x = g.input(random, dtype, dims), mask = g.input(random, dtype, dims),
                     gate = g.input(random, dtype, dims), sum = g.value(dtype, dims),
                     y = g.value(dtype, dims), z = g.value(dtype, dims);
        g.nodes.push_back({TN_OP_add, {x, mask}, {sum}});
        g.nodes.push_back({TN_OP_softmax, {sum}, {y}, {{"axis", axis}}});
        g.nodes.push_back({TN_OP_mul, {y, gate}, {z}});
        g.wanted = {y, z};
        FragmentBuilder f;
        g.describe(f);
        CHECK(supports(bench.device, f.fragment()).verdict ==
              (is_half(dtype) ? TN_SUPPORT_CONVERTED : TN_SUPPORT_NATIVE));
        const std::vector<Tensor> fused = g.run_fused(bench), apart = g.run_apart(bench);
        for (const size_t i : g.wanted) CHECK(fused[i].bytes == apart[i].bytes);
      }
    }
  }
}

TEST_CASE("softmax: numbers that would overflow, and −∞, give shares that add up to 1") {
  Bench bench;
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16, TN_DTYPE_f64}) {
    const Tensor y = of_row(bench, TN_OP_softmax, dtype, {60000, -infinity, 60000, -60000});
    CHECK(y.at({0, 0}) == 0.5L);
    CHECK(y.at({0, 1}) == 0);
    CHECK(y.at({0, 2}) == 0.5L);
    CHECK(y.at({0, 3}) == 0);
    const Tensor log = of_row(bench, TN_OP_log_softmax, dtype, {0, -infinity, 0});
    CHECK(close(log.at({0, 0}), -std::log(Number(2)), dtype, 1));
    CHECK(log.at({0, 1}) == -infinity);
  }
}

TEST_CASE("softmax: a row of nothing but −∞, or with a NaN, is NaN") {
  Bench bench;
  const Number nan = std::numeric_limits<Number>::quiet_NaN();
  for (const auto& row : {std::vector<Number>{-infinity, -infinity}, std::vector<Number>{1, nan, 2}}) {
    const Tensor y = of_row(bench, TN_OP_softmax, TN_DTYPE_f32, row);
    for (size_t i = 0; i < row.size(); ++i) CHECK(std::isnan(y.at({0, static_cast<int64_t>(i)})));
  }
}

TEST_CASE("softmax: shares are within a few ULP from 1 down into the subnormals") {
  Bench bench;
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_f64}) {
    std::vector<Number> row = {0};
    const Number low = dtype == TN_DTYPE_f32 ? -103 : -744;
    for (int i = 1; i < 3000; ++i) row.push_back(rounded(low * i / 3000 - 20, dtype));
    const Tensor y = of_row(bench, TN_OP_softmax, dtype, row);
    Number sum = 0;
    for (const Number x : row) sum += std::exp(x);
    for (size_t i = 0; i < row.size(); ++i)
      CHECK(close(y.at({0, static_cast<int64_t>(i)}), std::exp(row[i]) / sum, dtype, 4));
  }
}

TEST_CASE("cross entropy: ignored labels and labels outside the classes lose nothing and have no gradient") {
  Random random(tenon::test::seed());
  Bench bench;
  const Dims dims = {4, 37}, rows = {4};
  Nodes forward;
  const size_t x = forward.input(random, TN_DTYPE_f32, dims),
               labels = forward.input(random, TN_DTYPE_i32, rows), loss = forward.value(TN_DTYPE_f32, rows),
               log_sum = forward.value(TN_DTYPE_f32, rows);
  const int64_t given[] = {5, -1, 37, 9};
  for (int64_t i = 0; i < 4; ++i) forward.values[labels].set({i}, given[i]);
  forward.nodes.push_back({TN_OP_cross_entropy, {x, labels}, {loss, log_sum}, {{"ignore_index", 9}}});
  forward.wanted = {loss, log_sum};
  const std::vector<Tensor> got = forward.run_fused(bench);
  Number sum = 0;
  for (int64_t k = 0; k < 37; ++k) sum += std::exp(forward.values[x].at({0, k}));
  CHECK(close(got[loss].at({0}), std::log(sum) - forward.values[x].at({0, 5}), TN_DTYPE_f32, 4));
  CHECK(close(got[log_sum].at({0}), std::log(sum), TN_DTYPE_f32, 2));
  for (int64_t i = 1; i < 4; ++i) CHECK(got[loss].at({i}) == 0);

  Nodes backward = forward;
  backward.values[log_sum] = got[log_sum];
  backward.inputs.push_back(log_sum);
  const size_t dloss = backward.input(random, TN_DTYPE_f32, rows, {}, 1, 2),
               dx = backward.value(TN_DTYPE_f32, dims);
  backward.nodes = {{TN_OP_cross_entropy_grad, {x, labels, log_sum, dloss}, {dx}, {{"ignore_index", 9}}}};
  backward.wanted = {dx};
  const Tensor gradient = backward.run_fused(bench)[dx];
  for (int64_t k = 0; k < 37; ++k) {
    const Number share = std::exp(forward.values[x].at({0, k})) / sum;
    CHECK(close(gradient.at({0, k}), backward.values[dloss].at({0}) * (share - (k == 5 ? 1 : 0)),
                TN_DTYPE_f32, 16, 1e-7L));
    for (int64_t i = 1; i < 4; ++i) CHECK(gradient.at({i, k}) == 0);
  }
}
