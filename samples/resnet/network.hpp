// SPDX-License-Identifier: Apache-2.0
// network.hpp: residual networks as graphs: of 50 layers for large images, of 20 for small ones.
//
// "Deep Residual Learning for Image Recognition", with the stride in the 3 × 3 convolution. Invariant: running statistics are
// parameters, and `renewed` says which output is the next value of each.
#pragma once

#include <tenon/training.hpp>

#include <string>
#include <utility>
#include <vector>

namespace resnet {

struct Shape {
  int depth = 20;  // or 50
  int64_t batch = 64, channels = 1, size = 8, classes = 10;
};

class Network {
 public:
  explicit Network(const Shape& shape) : s_(shape) {
    const Value images = g_.input("image", {tenon::f32, {s_.batch, s_.channels, s_.size, s_.size}});
    const auto [x, width] = s_.depth == 50 ? fifty(images) : twenty(images);
    const Value pooled = g_.named("pool").reshape(g_.global_pool(x), {s_.batch, width});
    const Value w = g_.param("fc.w", {tenon::f32, {width, s_.classes}}),
                b = g_.param("fc.b", {tenon::f32, {s_.classes}});
    const Value scores = g_.named("fc").add(g_.matmul(pooled, w), b);
    g_.output("scores", scores);
    const auto losses = g_.cross_entropy(scores, g_.input("label", {tenon::i32, {s_.batch}}));
    g_.output("loss", g_.mean(losses[0], {0}));
  }

  const tenon::Graph& graph() const { return g_; }
  const std::vector<tenon::Renewed>& renewed() const { return renewed_; }

 private:
  using Value = tenon::GraphValue;
  using Ints = std::vector<int64_t>;

  // Convolution, batch norm and, where it is wanted, relu.
  Value block(const std::string& name, Value x, int64_t from, int64_t to, int64_t size, int64_t stride,
              bool active) {
    const int64_t pad = size / 2;
    const Value w = g_.param(name + ".w", {tenon::f32, {to, from, size, size}});
    const Value c = g_.named(name + ".conv")
                        .conv2d(x, w, {{"stride", Ints{stride, stride}}, {"pad", Ints{pad, pad, pad, pad}}});
    const tenon::TensorSpec row{tenon::f32, {to}};
    const Value scale = g_.param(name + ".scale", row), bias = g_.param(name + ".bias", row);
    const Value mean = g_.param(name + ".mean", row), var = g_.param(name + ".var", row);
    const auto out = g_.batch_norm_train(c, scale, bias, mean, var);
    renew(name + ".mean", out[3]);
    renew(name + ".var", out[4]);
    return active ? g_.named(name).relu(out[0]) : out[0];
  }

  void renew(const std::string& param, Value next) {
    g_.output(param + ".now", next);
    renewed_.push_back({param, param + ".now"});
  }

  // The way around a block: as it is, or by a convolution where sizes change.
  Value around(const std::string& name, Value x, int64_t from, int64_t to, int64_t stride) {
    return stride == 1 && from == to ? x : block(name + ".way", x, from, to, 1, stride, false);
  }

  Value basic(const std::string& name, Value x, int64_t from, int64_t width, int64_t stride) {
    Value y = block(name + ".a", x, from, width, 3, stride, true);
    y = block(name + ".b", y, width, width, 3, 1, false);
    return g_.named(name).relu(g_.add(y, around(name, x, from, width, stride)));
  }

  Value bottleneck(const std::string& name, Value x, int64_t from, int64_t width, int64_t stride) {
    Value y = block(name + ".a", x, from, width, 1, 1, true);
    y = block(name + ".b", y, width, width, 3, stride, true);
    y = block(name + ".c", y, width, 4 * width, 1, 1, false);
    return g_.named(name).relu(g_.add(y, around(name, x, from, 4 * width, stride)));
  }

  std::pair<Value, int64_t> twenty(Value images) {
    Value x = block("stem", images, s_.channels, 16, 3, 1, true);
    int64_t channels = 16;
    for (int64_t stage = 0, width = 16; stage < 3; ++stage, width *= 2) {
      for (int64_t i = 0; i < 3; ++i) {
        x = basic(called(stage, i), x, channels, width, stage > 0 && i == 0 ? 2 : 1);
        channels = width;
      }
    }
    return {x, channels};
  }

  std::pair<Value, int64_t> fifty(Value images) {
    Value x = block("stem", images, s_.channels, 64, 7, 2, true);
    x = g_.max_pool(x, {{"kernel", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"pad", Ints{1, 1, 1, 1}}});
    int64_t channels = 64;
    const int64_t counts[] = {3, 4, 6, 3};
    for (int64_t stage = 0, width = 64; stage < 4; ++stage, width *= 2) {
      for (int64_t i = 0; i < counts[stage]; ++i) {
        x = bottleneck(called(stage, i), x, channels, width, stage > 0 && i == 0 ? 2 : 1);
        channels = 4 * width;
      }
    }
    return {x, channels};
  }

  static std::string called(int64_t stage, int64_t block) {
    return "s" + std::to_string(stage + 1) + "." + std::to_string(block + 1);
  }

  Shape s_;
  tenon::Graph g_{"resnet"};
  std::vector<tenon::Renewed> renewed_{};
};

}  // namespace resnet
