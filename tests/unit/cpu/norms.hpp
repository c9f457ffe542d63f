// SPDX-License-Identifier: Apache-2.0
// norms.hpp: batch norm with what stands behind it, over images that lie in memory in several ways.
#pragma once

#include "nodes.hpp"
#include "strategies.hpp"
#include "support/full.hpp"

namespace cpu_test {

inline const std::vector<uint32_t> float_dtypes = {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16, TN_DTYPE_f64};

// Channels and planes around the sizes at which the walk changes: one channel, tiles of 1,024, more channels than a tile.
inline const std::vector<Dims> images = {
    {2, 3, 5, 7}, {4, 1, 40, 41}, {3, 70, 4, 4}, {2, 1030, 2, 1}, {5, 64, 9, 9}};

inline uint32_t statistics_of(uint32_t dtype) {
  return dtype == TN_DTYPE_f64 ? uint32_t{TN_DTYPE_f64} : uint32_t{TN_DTYPE_f32};
}

// Every way to run elementwise nodes; in a short run both engines on the widest instruction set.
inline std::vector<Strategy> engines() {
  std::vector<Strategy> out = strategies();
  if (!tenon::test::full_run() && out.size() > 2) out.erase(out.begin(), out.end() - 2);
  return out;
}

// How an image lies in memory: NCHW, NHWC, or NCHW with gaps.
enum class Lies { planes, pixels, gaps };
inline Dims strides_of(Lies lies, const Dims& d) {
  switch (lies) {
    case Lies::planes:
      return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
    case Lies::pixels:
      return {d[2] * d[3] * d[1], 1, d[3] * d[1], d[1]};
    case Lies::gaps:
      break;
  }
  return {d[1] * d[2] * (d[3] + 3), d[2] * (d[3] + 3), d[3] + 3, 1};
}

inline NodeOf add(size_t a, size_t b, size_t out) { return {TN_OP_add, {a, b}, {out}}; }

// [batch_norm_train, then add of a residual, then an activation].
inline Nodes forward(Random& random, uint32_t dtype, const Dims& dims, Lies lies, bool residual,
                     uint32_t activation) {
  Nodes g;
  const Dims strides = strides_of(lies, dims), channels = {dims[1]};
  const uint32_t statistics = statistics_of(dtype);
  const size_t x = g.input(random, dtype, dims, strides), scale = g.input(random, statistics, channels),
               bias = g.input(random, statistics, channels), mean = g.input(random, statistics, channels),
               variance = g.input(random, statistics, channels, {}, 0.1L, 3);
  const size_t y = g.value(dtype, dims, strides), out_mean = g.value(statistics, channels),
               inverse = g.value(statistics, channels), new_mean = g.value(statistics, channels),
               new_variance = g.value(statistics, channels);
  g.nodes.push_back({TN_OP_batch_norm_train,
                     {x, scale, bias, mean, variance},
                     {y, out_mean, inverse, new_mean, new_variance},
                     {},
                     {{"epsilon", 1e-5}, {"momentum", 0.9}}});
  g.wanted = {out_mean, inverse, new_mean, new_variance};
  size_t last = y;
  if (residual) {
    const size_t r = g.input(random, dtype, dims, strides), sum = g.value(dtype, dims, strides);
    g.nodes.push_back(add(y, r, sum));
    last = sum;
    if (random() % 2 == 0) g.wanted.push_back(sum);
  }
  const size_t z = g.value(dtype, dims, strides);
  g.nodes.push_back({activation, {last}, {z}});
  if (activation == TN_OP_gelu) g.nodes.back().integers = {{"tanh", 0}};
  g.wanted.push_back(z);
  if (random() % 2 == 0) g.wanted.push_back(y);
  return g;
}

// [gradients that join, batch_norm_apply,] relu_grad, batch_norm_grad: what is called on it puts its node next. Relu's gradient asks
// y: read, or made again of x.
struct WayBack {
  Nodes g;
  Dims dims, strides;
  uint32_t dtype, statistics;
  size_t x, dy, scale, mean, inverse, dz, dx, dscale, dbias;
  size_t y = Nodes::absent, bias = Nodes::absent, whole;  // whole: the gradient that relu's asks about

  WayBack(Random& random, uint32_t type, const Dims& of, Lies lies)
      : dims(of),
        strides(strides_of(lies, of)),
        dtype(type),
        statistics(statistics_of(type)),
        x(g.input(random, dtype, dims, strides)),
        dy(g.input(random, dtype, dims, strides)),
        scale(g.input(random, statistics, {dims[1]})),
        mean(g.input(random, statistics, {dims[1]}, {}, -1, 1)),
        inverse(g.input(random, statistics, {dims[1]}, {}, 0.5L, 2)),
        dz(g.value(dtype, dims, strides)),
        dx(g.value(dtype, dims, strides)),
        dscale(g.value(statistics, {dims[1]})),
        dbias(g.value(statistics, {dims[1]})),
        whole(dy) {
    g.wanted = {dx, dscale, dbias};
  }
  WayBack& join(Random& random) {
    const size_t other = g.input(random, dtype, dims, strides);
    whole = g.value(dtype, dims, strides);
    g.nodes.push_back(add(dy, other, whole));
    return *this;
  }
  WayBack& read_y(Random& random) {
    y = g.input(random, dtype, dims, strides);
    return *this;
  }
  WayBack& make_y(Random& random) {
    bias = g.input(random, statistics, {dims[1]});
    y = g.value(dtype, dims, strides);
    g.nodes.push_back({TN_OP_batch_norm_apply, {x, scale, bias, mean, inverse}, {y}});
    return *this;
  }
  WayBack& finish() {
    g.nodes.push_back({TN_OP_relu_grad, {whole, y}, {dz}});
    g.nodes.push_back({TN_OP_batch_norm_grad, {dz, x, scale, mean, inverse}, {dx, dscale, dbias}});
    return *this;
  }
};

// The nodes in one launch equal them one by one, bit for bit; whether the plugin says that it is one step.
inline void check_same(Bench& bench, const Nodes& g, bool one_step = true) {
  FragmentBuilder f("one step");
  g.describe(f);
  CAPTURE(label(g.nodes.front().op, g.values[0].dtype, g.values[0].dims));
  const uint32_t together = is_half(g.values[0].dtype) ? TN_SUPPORT_CONVERTED : TN_SUPPORT_NATIVE;
  CHECK((supports(bench.device, f.fragment()).verdict == together) == one_step);
  const std::vector<Tensor> fused = g.run_fused(bench), apart = g.run_apart(bench);
  for (const size_t i : g.wanted) CHECK(fused[i].bytes == apart[i].bytes);
}

// check(bench, dtype, dims, lies) by every engine, for every type, image and way to lie in memory.
template <class Check>
void on_every_image(Check check) {
  for (const Strategy& strategy : engines()) {
    CAPTURE(strategy.name());
    Bench bench = bench_of(strategy);
    for (const uint32_t dtype : float_dtypes)
      for (const Dims& dims : images)
        for (const Lies lies : {Lies::planes, Lies::pixels, Lies::gaps}) check(bench, dtype, dims, lies);
  }
}

// The nodes in one launch make `out` in the place of `in`, and all they make is what they make beside it, bit for bit.
inline void check_in_place(Bench& bench, const Nodes& g, size_t in, size_t out) {
  CAPTURE(label(g.nodes.front().op, g.values[0].dtype, g.values[0].dims));
  const std::vector<Tensor> apart = g.run_fused(bench), now = g.run_in_place(bench, in, out);
  for (const size_t i : g.wanted) CHECK(now[i].bytes == apart[i].bytes);
}

}  // namespace cpu_test
