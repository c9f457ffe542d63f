// SPDX-License-Identifier: Apache-2.0
// network.hpp: linear layers with relu between them, one kernel for each op, as an eager framework would have them.
//
// Invariant: a gradient is written where GradientSync wants it, and is told of once.
#pragma once

#include <tenon/tenon.hpp>

#include <cmath>
#include <random>
#include <span>
#include <vector>

namespace eager_ddp {

using namespace tenon;

constexpr int64_t batch = 64;
constexpr double rate = 0.02;

inline TensorSpec matrix(int64_t rows, int64_t columns) { return {f32, {rows, columns}}; }

// One op as a kernel; in place: its output lies over its first input.
enum class Place { own, over };
inline Result<Kernel> kernel(Device& device, Op op, std::initializer_list<TensorSpec> inputs,
                             TensorSpec output, std::vector<Attribute> attributes = {},
                             Place place = Place::own) {
  FragmentBuilder f;
  std::vector<FragmentBuilder::Value> values;
  for (const TensorSpec& input : inputs) values.push_back(f.input(input));
  f.output(f.node(op, values, {std::move(output)}, std::move(attributes))[0]);
  if (place == Place::over) f.alias(0, 0);
  return device.compile(TN_TRY(f.build()));
}

// weight + gradient · -rate, in place.
inline Result<Kernel> update_kernel(Device& device, const TensorSpec& shape) {
  FragmentBuilder f("sgd");
  const auto weight = f.input(shape), gradient = f.input(shape);
  f.output(f.node(Op::add, {weight, f.node(Op::scale, {gradient}, shape, {{"scale", -rate}})}, shape));
  f.alias(0, 0);
  return device.compile(TN_TRY(f.build()));
}

// x · weight, then relu but for the last.
struct Layer {
  Kernel product, relu, relu_grad, weight_grad, input_grad, update;
  Buffer weight, out, out_grad;

  static Result<Layer> make(Device& device, Stream& stream, int64_t in, int64_t width) {
    const TensorSpec x = matrix(batch, in), w = matrix(in, width), y = matrix(batch, width);
    const std::vector<Attribute> transpose_a{{"transpose_a", int64_t{1}}},
        transpose_b{{"transpose_b", int64_t{1}}};
    Layer l;
    l.product = TN_TRY(kernel(device, Op::matmul, {x, w}, y));
    l.relu = TN_TRY(kernel(device, Op::relu, {y}, y, {}, Place::over));
    l.relu_grad = TN_TRY(kernel(device, Op::relu_grad, {y, y}, y, {}, Place::over));
    l.weight_grad = TN_TRY(kernel(device, Op::matmul, {x, y}, w, transpose_a));
    l.input_grad = TN_TRY(kernel(device, Op::matmul, {y, w}, x, transpose_b));
    l.update = TN_TRY(update_kernel(device, w));
    l.weight = TN_TRY(device.allocate(stream, w.bytes()));
    l.out = TN_TRY(device.allocate(stream, y.bytes()));
    l.out_grad = TN_TRY(device.allocate(stream, y.bytes()));
    return l;
  }
};

inline std::vector<float> normal(std::mt19937& random, int64_t count, double deviation) {
  std::vector<float> out(static_cast<size_t>(count));
  std::normal_distribution<double> distribution(0, deviation);
  for (float& x : out) x = static_cast<float>(distribution(random));
  return out;
}

class Network {
 public:
  // The same `seed` gives the same weights.
  static Result<Network> make(Device& device, Stream& stream, std::span<const int64_t> widths,
                              uint32_t seed) {
    std::mt19937 random(seed);
    Network n;
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      n.layers_.push_back(TN_TRY(Layer::make(device, stream, widths[i], widths[i + 1])));
      const auto weights =
          normal(random, widths[i] * widths[i + 1], 1 / std::sqrt(static_cast<double>(widths[i])));
      TN_TRY(stream.upload(n.layers_.back().weight, weights));
    }
    const TensorSpec y = matrix(batch, 1);
    n.difference_ = TN_TRY(kernel(device, Op::sub, {y, y}, y));
    return n;
  }

  const Buffer& out() const { return layers_.back().out; }
  std::vector<Layer>& parameters() { return layers_; }

  Status forward(Stream& stream, const Buffer& x, Timeline& timeline) {
    return timeline.measure(stream, {.name = "forward"}, [&]() -> Status {
      const Buffer* in = &x;
      for (Layer& l : layers_) {
        TN_TRY(l.product.run(stream, {*in, l.weight, l.out}));
        if (&l != &layers_.back()) TN_TRY(l.relu.run(stream, {l.out, l.out}));
        in = &l.out;
      }
      return {};
    });
  }

  // Gradients of half the sum of squared errors, the last layer's first; each leaves as soon as its bucket is full.
  Status backward(Stream& stream, GradientSync& sync, const Buffer& x, const Buffer& expected,
                  Timeline& timeline) {
    TN_TRY(difference_.run(stream, {out(), expected, layers_.back().out_grad}));
    for (auto i = static_cast<uint32_t>(layers_.size()); i-- > 0;) {
      TN_TRY(timeline.measure(stream, {.name = "backward"}, [&] { return backward_of(i, stream, sync, x); }));
      TN_TRY(sync.ready(i));
    }
    return {};
  }

  Status update(Stream& stream, const GradientSync& sync, Timeline& timeline) {
    return timeline.measure(stream, {.name = "update"}, [&]() -> Status {
      for (uint32_t i = 0; i < layers_.size(); ++i)
        TN_TRY(layers_[i].update.run(stream, {layers_[i].weight, sync.gradient(i), layers_[i].weight}));
      return {};
    });
  }

 private:
  // The gradient that the layer before waits for comes first: its kernels follow while this layer's leaves.
  Status backward_of(uint32_t i, Stream& stream, const GradientSync& sync, const Buffer& x) {
    Layer& l = layers_[i];
    const Buffer& in = i == 0 ? x : layers_[i - 1].out;
    if (i > 0) {
      Layer& before = layers_[i - 1];
      TN_TRY(l.input_grad.run(stream, {l.out_grad, l.weight, before.out_grad}));
      TN_TRY(before.relu_grad.run(stream, {before.out_grad, before.out, before.out_grad}));
    }
    return l.weight_grad.run(stream, {in, l.out_grad, sync.gradient(i)});
  }

  std::vector<Layer> layers_;
  Kernel difference_;
};

}  // namespace eager_ddp
