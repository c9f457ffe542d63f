// SPDX-License-Identifier: Apache-2.0
// network.hpp: a decoder as a graph: attention and a feed-forward net in each layer, a layer norm before either.
#pragma once

#include <tenon/graph.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace transformer {

struct Shape {
  int64_t batch = 16, length = 64, width = 64, heads = 4, layers = 2, words = 128;
};

class Network {
 public:
  // Scores for the word after each; with the mean loss against "next" where that is wanted.
  Network(const Shape& shape, bool with_loss) : s_(shape) {
    const Value tokens = g_.input("tokens", {tenon::i32, {s_.batch, s_.length}});
    Value x = g_.named("embedded")
                  .add(g_.embedding(tokens, param("table", {s_.words, s_.width})),
                       param("places", {s_.length, s_.width}));
    for (int64_t i = 0; i < s_.layers; ++i) {
      const std::string name = "l" + std::to_string(i + 1);
      x = g_.named(name + ".mid").add(x, attention(name + ".attention", norm(name + ".norm1", x)));
      x = g_.named(name).add(x, feed_forward(name + ".ffn", norm(name + ".norm2", x)));
    }
    const int64_t rows = s_.batch * s_.length;
    const Value scores = g_.named("scores").matmul(g_.reshape(norm("norm", x), {rows, s_.width}),
                                                   param("head", {s_.width, s_.words}));
    g_.output("scores.now", scores);
    if (!with_loss) return;
    const Value next = g_.reshape(g_.input("next", {tenon::i32, {s_.batch, s_.length}}), {rows});
    g_.output("loss", g_.mean(g_.cross_entropy(scores, next)[0], {0}));
  }
  const tenon::Graph& graph() const { return g_; }

 private:
  using Value = tenon::GraphValue;
  using Ints = std::vector<int64_t>;

  Value param(const std::string& name, Ints dims) { return g_.param(name, {tenon::f32, std::move(dims)}); }

  Value norm(const std::string& name, Value x) {
    return g_.layer_norm(x, param(name + ".scale", {s_.width}), param(name + ".bias", {s_.width}))[0];
  }
  Value linear(const std::string& name, Value x, int64_t from, int64_t to) {
    return g_.named(name).add(g_.matmul(x, param(name + ".w", {from, to})), param(name + ".b", {to}));
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
    const Value y = g_.attention(q, k, v, {{"causal", int64_t{1}}, {"scale", scale}})[0];
    const Value joined = g_.reshape(g_.transpose(y, {0, 2, 1, 3}), {s_.batch, s_.length, s_.width});
    return linear(name + ".o", joined, s_.width, s_.width);
  }
  Value feed_forward(const std::string& name, Value x) {
    const Value h = g_.named(name + ".gelu").gelu(linear(name + ".up", x, s_.width, 4 * s_.width));
    return linear(name + ".down", h, 4 * s_.width, s_.width);
  }

  Shape s_;
  tenon::Graph g_{"transformer"};
};

}  // namespace transformer
