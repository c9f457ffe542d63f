// SPDX-License-Identifier: Apache-2.0
// network.hpp: the network that learns digits, as a graph: two convolutions, two products.
#pragma once

#include <tenon/graph.hpp>

#include <string>
#include <vector>

namespace digits {

// Scores for the ten digits, and where `with_loss` the mean loss against "label".
class Network {
 public:
  Network(int64_t batch, bool with_loss) : batch_(batch) {
    using namespace tenon;
    const auto x = g_.input("image", {f32, {batch, 1, 8, 8}});
    auto h = convolution("conv1", x, 1, 16);
    h = g_.max_pool(convolution("conv2", h, 16, 32), {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}});
    h = g_.named("hidden").relu(linear("fc1", g_.reshape(h, {batch, 512}), 512, 128));
    const auto scores = linear("fc2", h, 128, 10);
    g_.output("scores", scores);
    if (!with_loss) return;
    const auto losses = g_.cross_entropy(scores, g_.input("label", {i32, {batch}}));
    g_.output("loss", g_.mean(losses[0], {0}));
  }
  const tenon::Graph& graph() const { return g_; }

 private:
  using Value = tenon::GraphValue;
  using Ints = std::vector<int64_t>;

  Value convolution(const std::string& name, Value x, int64_t from, int64_t to) {
    const Value w = g_.param(name + ".w", {tenon::f32, {to, from, 3, 3}});
    const Value b = g_.param(name + ".b", {tenon::f32, {to, 1, 1}});
    return g_.named(name).relu(g_.add(g_.conv2d(x, w, {{"pad", Ints{1, 1, 1, 1}}}), b));
  }
  Value linear(const std::string& name, Value x, int64_t from, int64_t to) {
    const Value w = g_.param(name + ".w", {tenon::f32, {from, to}});
    return g_.named(name).add(g_.matmul(x, w), g_.param(name + ".b", {tenon::f32, {to}}));
  }

  int64_t batch_;
  tenon::Graph g_{"digits"};
};

}  // namespace digits
