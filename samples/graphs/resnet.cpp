// SPDX-License-Identifier: Apache-2.0
// resnet.cpp: ResNet-50, as in "Deep Residual Learning for Image Recognition" with the stride in the 3 × 3 convolution.
#include "models.hpp"

#include <string>
#include <vector>

namespace {

using namespace tenon;
using Ints = std::vector<int64_t>;
using Value = Graph::Value;

class ResNet {
 public:
  explicit ResNet(int64_t batch) : batch_(batch) {}

  Result<Graph> build() {
    const Value images = g_.input("images", {f32, {batch_, 3, 224, 224}});
    Value x = block("stem", images, 3, 64, 7, 2, true);
    x = g_.named("stem.pool")
            .max_pool(x, {{"kernel", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"pad", Ints{1, 1, 1, 1}}});
    int64_t channels = 64;
    const int64_t widths[] = {64, 128, 256, 512}, counts[] = {3, 4, 6, 3};
    for (int stage = 0; stage < 4; ++stage) {
      for (int64_t i = 0; i < counts[stage]; ++i) {
        const std::string name = "s" + std::to_string(stage + 1) + "." + std::to_string(i + 1);
        x = bottleneck(name, x, channels, widths[stage], stage > 0 && i == 0 ? 2 : 1);
        channels = 4 * widths[stage];
      }
    }
    classify(x, channels);
    TN_TRY(update());
    TN_TRY(g_.check());
    return std::move(g_);
  }

 private:
  Value param(const std::string& name, Ints dims) {
    parameters_.push_back(g_.param(name, {f32, std::move(dims)}));
    return parameters_.back();
  }

  // Convolution, batch norm and, where it is wanted, relu.
  Value block(const std::string& name, Value x, int64_t from, int64_t to, int64_t size, int64_t stride,
              bool active) {
    const int64_t pad = size / 2;
    const Value w = param(name + ".w", {to, from, size, size});
    const Value c = g_.named(name + ".conv")
                        .conv2d(x, w, {{"stride", Ints{stride, stride}}, {"pad", Ints{pad, pad, pad, pad}}});
    const Value scale = param(name + ".scale", {to}), bias = param(name + ".bias", {to});
    const Value mean = g_.param(name + ".mean", {f32, {to}}), var = g_.param(name + ".var", {f32, {to}});
    const auto out = g_.named({name + ".bn", name + ".bn_mean", name + ".bn_inv_std", name + ".new_mean",
                               name + ".new_var"})
                         .batch_norm_train(c, scale, bias, mean, var);
    g_.output(name + ".mean.next", out[3]);
    g_.output(name + ".var.next", out[4]);
    return active ? g_.named(name + ".relu").relu(out[0]) : out[0];
  }

  Value bottleneck(const std::string& name, Value x, int64_t channels, int64_t width, int64_t stride) {
    Value y = block(name + ".a", x, channels, width, 1, 1, true);
    y = block(name + ".b", y, width, width, 3, stride, true);
    y = block(name + ".c", y, width, 4 * width, 1, 1, false);
    const bool same = stride == 1 && channels == 4 * width;
    const Value way = same ? x : block(name + ".way", x, channels, 4 * width, 1, stride, false);
    return g_.named(name + ".out").relu(g_.named(name + ".add").add(y, way));
  }

  void classify(Value x, int64_t channels) {
    const Value pooled = g_.named("pool").reshape(g_.global_pool(x), {batch_, channels});
    const Value w = param("fc.w", {channels, 1000}), b = param("fc.b", {1000});
    const Value scores = g_.named("scores").add(g_.named("fc").matmul(pooled, w), b);
    const auto loss =
        g_.named({"losses", "log_sum"}).cross_entropy(scores, g_.input("labels", {i64, {batch_}}));
    loss_ = g_.named("loss").mean(loss[0], {0});
    g_.output("loss.now", loss_);
  }

  // A gradient and a momentum update for each parameter.
  Status update() {
    const Value rate = g_.input("rate", {f32, {}});
    const std::vector<Value> gradients = TN_TRY(g_.gradients(loss_, parameters_));
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const std::string name = g_.values()[parameters_[i].index].name;
      const Value speed = g_.param(name + ".speed", g_.spec(parameters_[i]));
      const auto next = g_.named({name + ".step", name + ".speed_step", name + ".master"})
                            .momentum(parameters_[i], gradients[i], speed, rate, {{"weight_decay", 1e-4}});
      g_.output(name + ".next", next[0]);
      g_.output(name + ".speed.next", next[1]);
    }
    return {};
  }

  int64_t batch_;
  Graph g_{"resnet50"};
  std::vector<Value> parameters_{};
  Value loss_{};
};

}  // namespace

Result<Graph> resnet50(int64_t batch) { return ResNet(batch).build(); }
