// SPDX-License-Identifier: Apache-2.0
// batch_norm.hpp: a row of batch norms over the samples of all ranks, as a framework would write them; and the same over the
// whole batch in double.
//
// Invariant: the layers use nothing but the public interface; the reference uses nothing of Tenon.
#pragma once

#include "model.hpp"

#include <cmath>
#include <deque>

namespace overlap_test {

constexpr double epsilon = 1e-3;
constexpr int64_t channels = 6;

// A kernel for each half of forward and backward; `rows` are this rank's.
struct NormKernels {
  Plan sums, apply, grad_sums, grad;

  static Result<NormKernels> make(Device& device, int64_t rows) {
    const TensorSpec x{f32, {rows, channels}}, c{f32, {channels}}, all{f32, {2 * channels + 1}};
    const auto from = [](Graph& g, GraphValue all_sums, int64_t begin, int64_t count) {
      return g.slice(all_sums, {begin}, {begin + count}, {1});
    };
    Graph sums("sums"), apply("apply"), grad_sums("grad_sums"), grad("grad");
    {
      Graph& g = sums;  // Σx, Σx², count
      const auto v = g.input("x", x);
      g.output("sums", g.concat({g.sum(v, {0}), g.sum(g.mul(v, v), {0}),
                                 g.constant({f32, {1}}, static_cast<double>(rows))},
                                0));
    }
    {
      Graph& g = apply;
      const auto v = g.input("x", x), s = g.input("sums", all), scale = g.input("scale", c),
                 bias = g.input("bias", c);
      const auto count = from(g, s, 2 * channels, 1);
      const auto mean = g.div(from(g, s, 0, channels), count);
      const auto variance = g.sub(g.div(from(g, s, channels, channels), count), g.mul(mean, mean));
      const auto inverse = g.rsqrt(g.scale(variance, 1, epsilon));
      const auto hat = g.mul(g.sub(v, mean), inverse);
      g.output("hat", hat);
      g.output("inverse", g.scale(inverse, 1));
      g.output("y", g.add(g.mul(hat, scale), bias));
    }
    {
      Graph& g = grad_sums;  // of this rank: the gradients of bias and scale, too
      const auto dy = g.input("dy", x), hat = g.input("hat", x);
      const auto bias = g.sum(dy, {0}), scale = g.sum(g.mul(dy, hat), {0});
      g.output("d_bias", bias);
      g.output("d_scale", scale);
      g.output("sums", g.concat({bias, scale, g.constant({f32, {1}}, static_cast<double>(rows))}, 0));
    }
    {
      Graph& g = grad;
      const auto dy = g.input("dy", x), hat = g.input("hat", x), s = g.input("sums", all),
                 scale = g.input("scale", c), inverse = g.input("inverse", c);
      const auto count = from(g, s, 2 * channels, 1);
      const auto mean = g.div(from(g, s, 0, channels), count),
                 slope = g.div(from(g, s, channels, channels), count);
      const auto centred = g.sub(g.sub(dy, mean), g.mul(hat, slope));
      g.output("dx", g.mul(g.mul(scale, inverse), centred));
    }
    NormKernels out;
    out.sums = TN_TRY(plan(sums, device));
    out.apply = TN_TRY(plan(apply, device));
    out.grad_sums = TN_TRY(plan(grad_sums, device));
    out.grad = TN_TRY(plan(grad, device));
    return out;
  }
};

// One layer's memory on one rank. Its parameters are 2i (scale) and 2i + 1 (bias) of the sync.
struct Norm {
  Buffer scale, bias, hat, inverse, y, dx, sums;

  static Result<Norm> make(Rank& r, int64_t rows, const std::vector<float>& scale,
                           const std::vector<float>& bias) {
    const auto floats = [&](int64_t count) { return r.buffer(static_cast<uint64_t>(count) * sizeof(float)); };
    Norm n;
    n.scale = TN_TRY(floats(channels));
    n.bias = TN_TRY(floats(channels));
    n.inverse = TN_TRY(floats(channels));
    n.hat = TN_TRY(floats(rows * channels));
    n.y = TN_TRY(floats(rows * channels));
    n.dx = TN_TRY(floats(rows * channels));
    n.sums = TN_TRY(floats(2 * channels + 1));
    TN_TRY(r.stream.upload(n.scale, scale));
    TN_TRY(r.stream.upload(n.bias, bias));
    return n;
  }

  Status forward(const NormKernels& k, Stream& stream, GradientSync& sync, const Buffer& x) {
    TN_TRY(k.sums.run(stream, {{"x", x}, {"sums", sums}}));
    TN_TRY(sync.sum(stream, sums, f32));
    return k.apply.run(stream, {{"x", x},
                                {"sums", sums},
                                {"scale", scale},
                                {"bias", bias},
                                {"hat", hat},
                                {"inverse", inverse},
                                {"y", y}});
  }

  Status backward(const NormKernels& k, Stream& stream, GradientSync& sync, uint32_t layer,
                  const Buffer& dy) {
    TN_TRY(k.grad_sums.run(stream, {{"dy", dy},
                                    {"hat", hat},
                                    {"d_scale", sync.gradient(2 * layer)},
                                    {"d_bias", sync.gradient(2 * layer + 1)},
                                    {"sums", sums}}));
    TN_TRY(sync.sum(stream, sums, f32));
    return k.grad.run(
        stream,
        {{"dy", dy}, {"hat", hat}, {"sums", sums}, {"scale", scale}, {"inverse", inverse}, {"dx", dx}});
  }
};

// The whole batch, layer after layer.
struct WholeBatch {
  using Numbers = std::vector<double>;
  std::vector<Numbers> scale{}, bias{}, d_scale{}, d_bias{};  // of each layer
  Numbers y{}, dx{};

  void run(const Numbers& x, const Numbers& dy) {
    std::vector<Numbers> hats, inverses;
    y = x;
    for (size_t layer = 0; layer < scale.size(); ++layer) {
      hats.emplace_back(y.size());
      inverses.emplace_back(channels);
      for (size_t c = 0; c < channels; ++c) normalise(layer, c, hats.back(), inverses.back());
    }
    dx = dy;
    d_scale.assign(scale.size(), Numbers(channels));
    d_bias = d_scale;
    for (size_t layer = scale.size(); layer-- > 0;)
      for (size_t c = 0; c < channels; ++c) go_back(layer, c, hats[layer], inverses[layer][c]);
  }

 private:
  void normalise(size_t layer, size_t c, Numbers& hat, Numbers& inverse) {
    double sum = 0, squares = 0;
    for (size_t i = c; i < y.size(); i += channels) sum += y[i], squares += y[i] * y[i];
    const double count = static_cast<double>(y.size()) / channels, mean = sum / count;
    inverse[c] = 1 / std::sqrt(squares / count - mean * mean + epsilon);
    for (size_t i = c; i < y.size(); i += channels) {
      hat[i] = (y[i] - mean) * inverse[c];
      y[i] = hat[i] * scale[layer][c] + bias[layer][c];
    }
  }

  void go_back(size_t layer, size_t c, const Numbers& hat, double inverse) {
    for (size_t i = c; i < dx.size(); i += channels) {
      d_bias[layer][c] += dx[i];
      d_scale[layer][c] += dx[i] * hat[i];
    }
    const double count = static_cast<double>(dx.size()) / channels;
    for (size_t i = c; i < dx.size(); i += channels)
      dx[i] =
          scale[layer][c] * inverse * (dx[i] - d_bias[layer][c] / count - hat[i] * d_scale[layer][c] / count);
  }
};

}  // namespace overlap_test
