// SPDX-License-Identifier: Apache-2.0
// transformer.cpp: a decoder with layer norm before attention and before the feed-forward net.
#include "models.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace {

using namespace tenon;
using Ints = std::vector<int64_t>;
using Value = Graph::Value;

struct Sizes {
  int64_t batch, length, width, heads, layers, words;
};

class Transformer {
 public:
  explicit Transformer(const Sizes& sizes) : s_(sizes) {}

  Result<Graph> build() {
    const Value tokens = g_.input("tokens", {i64, {s_.batch, s_.length}});
    const Value table = param("table", {s_.words, s_.width});
    Value x = g_.named("embedded").add(g_.embedding(tokens, table), param("places", {s_.length, s_.width}));
    for (int64_t i = 0; i < s_.layers; ++i) {
      const std::string name = "l" + std::to_string(i + 1);
      x = g_.named(name + ".mid").add(x, attention(name + ".attention", norm(name + ".norm1", x)));
      x = g_.named(name + ".out").add(x, feed_forward(name + ".ffn", norm(name + ".norm2", x)));
    }
    score(norm("norm", x));
    TN_TRY(update());
    TN_TRY(g_.check());
    return std::move(g_);
  }

 private:
  Value param(const std::string& name, Ints dims) {
    parameters_.push_back(g_.param(name, {f32, std::move(dims)}));
    return parameters_.back();
  }

  Value norm(const std::string& name, Value x) {
    const Value scale = param(name + ".scale", {s_.width}), bias = param(name + ".bias", {s_.width});
    return g_.named({name, name + ".mean", name + ".inv_std"}).layer_norm(x, scale, bias)[0];
  }

  Value linear(const std::string& name, Value x, int64_t from, int64_t to) {
    return g_.named(name).add(g_.named(name + ".product").matmul(x, param(name + ".w", {from, to})),
                              param(name + ".b", {to}));
  }

  // [batch, length, width] → [batch, heads, length, width / heads]
  Value heads_of(Value x) {
    return g_.transpose(g_.reshape(x, {s_.batch, s_.length, s_.heads, s_.width / s_.heads}), {0, 2, 1, 3});
  }

  Value attention(const std::string& name, Value x) {
    const Value q = heads_of(linear(name + ".q", x, s_.width, s_.width));
    const Value k = heads_of(linear(name + ".k", x, s_.width, s_.width));
    const Value v = heads_of(linear(name + ".v", x, s_.width, s_.width));
    const double scale = 1 / std::sqrt(static_cast<double>(s_.width / s_.heads));
    const auto y =
        g_.named({name, name + ".log_sum"}).attention(q, k, v, {{"causal", int64_t{1}}, {"scale", scale}});
    const Value joined = g_.reshape(g_.transpose(y[0], {0, 2, 1, 3}), {s_.batch, s_.length, s_.width});
    return linear(name + ".o", joined, s_.width, s_.width);
  }

  Value feed_forward(const std::string& name, Value x) {
    const Value h = g_.named(name + ".gelu").gelu(linear(name + ".up", x, s_.width, 4 * s_.width));
    return linear(name + ".down", h, 4 * s_.width, s_.width);
  }

  void score(Value x) {
    const int64_t rows = s_.batch * s_.length;
    const Value scores =
        g_.named("scores").matmul(g_.reshape(x, {rows, s_.width}), param("head", {s_.width, s_.words}));
    const auto loss =
        g_.named({"losses", "log_sum"}).cross_entropy(scores, g_.input("next_tokens", {i64, {rows}}));
    loss_ = g_.named("loss").mean(loss[0], {0});
    g_.output("loss.now", loss_);
  }

  // A gradient and an Adam update for each parameter.
  Status update() {
    const Value rate = g_.input("rate", {f32, {}}), step = g_.input("step", {f32, {}});
    const std::vector<Value> gradients = TN_TRY(g_.gradients(loss_, parameters_));
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const std::string name = g_.values()[parameters_[i].index].name;
      const TensorSpec spec = g_.spec(parameters_[i]);
      const Value m = g_.param(name + ".m", spec), v = g_.param(name + ".v", spec);
      const auto next = g_.named({name + ".step", name + ".m_step", name + ".v_step", name + ".master"})
                            .adam(parameters_[i], gradients[i], m, v, rate, step);
      g_.output(name + ".next", next[0]);
      g_.output(name + ".m.next", next[1]);
      g_.output(name + ".v.next", next[2]);
    }
    return {};
  }

  Sizes s_;
  Graph g_{"transformer"};
  std::vector<Value> parameters_{};
  Value loss_{};
};

}  // namespace

Result<Graph> transformer(int64_t batch, int64_t length, int64_t width, int64_t heads, int64_t layers,
                          int64_t words) {
  return Transformer({batch, length, width, heads, layers, words}).build();
}
