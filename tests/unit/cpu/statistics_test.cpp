// SPDX-License-Identifier: Apache-2.0
// statistics_test.cpp: means and variances that are hard to take, of batch norm and layer norm.
//
// Invariant: they are compared with those of long double, taken in two passes.
#include "norms.hpp"

using namespace cpu_test;

TEST_CASE("batch norm: a mean far larger than the spread leaves the variance accurate") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const Lies lies : {Lies::planes, Lies::pixels}) {
    for (const Number level : {1e4L, 1e5L}) {
      Nodes g = forward(random, TN_DTYPE_f32, {8, 5, 30, 31}, lies, false, TN_OP_relu);
      Tensor& x = g.values[0];
      for_each(x.dims, [&](const Dims& at) { x.set(at, rounded(level + x.at(at), TN_DTYPE_f32)); });
      const std::vector<Tensor> got = g.run_fused(bench);
      for (int64_t c = 0; c < 5; ++c) {
        Number sum = 0, spread = 0, count = 0;
        const auto each = [&](auto&& take) {
          for_each({8, 30, 31}, [&](const Dims& i) { take(x.at({i[0], c, i[1], i[2]})); });
        };
        each([&](Number v) { sum += v, count += 1; });
        const Number mean = sum / count;
        each([&](Number v) { spread += (v - mean) * (v - mean); });
        const Number inverse = 1 / std::sqrt(spread / count + 1e-5L);
        CHECK(std::fabs(got[g.nodes[0].out[1]].at({c}) - mean) <= ulp(mean, TN_DTYPE_f32));
        CHECK(std::fabs(got[g.nodes[0].out[2]].at({c}) - inverse) <= 1e-8L * level * inverse);
      }
    }
  }
}

TEST_CASE("batch norm: an outlier that comes first does not spoil the rest") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const Lies lies : {Lies::planes, Lies::pixels}) {
    Nodes g = forward(random, TN_DTYPE_f32, {4, 2, 20, 20}, lies, false, TN_OP_relu);
    Tensor& x = g.values[0];
    x.set({0, 0, 0, 0}, 1e6L);
    Number sum = 0, spread = 0;
    for_each({4, 20, 20}, [&](const Dims& i) { sum += x.at({i[0], 0, i[1], i[2]}); });
    const Number mean = sum / 1600;
    for_each({4, 20, 20}, [&](const Dims& i) {
      const Number apart = x.at({i[0], 0, i[1], i[2]}) - mean;
      spread += apart * apart;
    });
    const std::vector<Tensor> got = g.run_fused(bench);
    CHECK(std::fabs(got[g.nodes[0].out[1]].at({0}) - mean) <= 1e-5L * std::fabs(mean));
    CHECK(std::fabs(got[g.nodes[0].out[2]].at({0}) * std::sqrt(spread / 1600) - 1) <= 1e-5L);
  }
}

TEST_CASE("layer norm: a mean far larger than the spread leaves the result accurate") {
  Random random(tenon::test::seed());
  Bench bench;
  const Dims dims = {9, 3000};
  Nodes g;
  const size_t x = g.input(random, TN_DTYPE_f32, dims),
               scale = g.input(random, TN_DTYPE_f32, {3000}, {}, 1, 1),
               bias = g.input(random, TN_DTYPE_f32, {3000}, {}, 0, 0), y = g.value(TN_DTYPE_f32, dims);
  g.nodes.push_back({TN_OP_layer_norm,
                     {x, scale, bias},
                     {y, Nodes::absent, Nodes::absent},
                     {{"axes", 1}},
                     {{"epsilon", 1e-5}}});
  g.wanted = {y};
  Tensor& in = g.values[x];
  for_each(dims, [&](const Dims& at) { in.set(at, rounded(30000 + in.at(at), TN_DTYPE_f32)); });
  const std::vector<Tensor> got = g.run_fused(bench);
  for (int64_t r = 0; r < dims[0]; ++r) {
    Number sum = 0, spread = 0;
    for (int64_t i = 0; i < dims[1]; ++i) sum += in.at({r, i});
    const Number mean = sum / 3000;
    for (int64_t i = 0; i < dims[1]; ++i) spread += (in.at({r, i}) - mean) * (in.at({r, i}) - mean);
    const Number inverse = 1 / std::sqrt(spread / 3000 + 1e-5L);
    Number worst = 0;
    for (int64_t i = 0; i < dims[1]; ++i)
      worst = std::max(worst, std::fabs(got[y].at({r, i}) - (in.at({r, i}) - mean) * inverse));
    CHECK(worst < 2e-3L);  // half an ULP of 30,000 in units of the spread
  }
}
