// SPDX-License-Identifier: Apache-2.0
// Attention that a model writes as products becomes the device's own where it has one, unless the strategy says otherwise, and the
// step learns the same.
#include "integration/device.hpp"
#include "integration/train/model.hpp"

#include <doctest/doctest.h>

using namespace train_test;
using tenon::test::must;

namespace {

constexpr int64_t batch = 2, heads = 2, length = 8, depth = 4;

// y = softmax(q · kᵀ / 2, seen backwards) · v, with q, k and v of x by weights.
Graph attentive() {
  Graph g("attentive");
  const TensorSpec rows{f32, {batch, heads, length, depth}}, weights{f32, {heads, depth, depth}};
  const auto x = g.input("x", rows), wanted = g.input("y", rows);
  const auto of = [&](const char* name) { return g.matmul(x, g.param(name, weights)); };
  const auto scores = g.scale(g.matmul(of("q"), of("k"), {{"transpose_b", int64_t{1}}}), 0.5);
  const auto seen =
      g.where(g.input("seen", {boolean, {length, length}}), scores, g.constant({f32, {}}, -1e9));
  const auto y = g.matmul(g.named("shares").softmax(seen), of("v"));
  g.output("loss", g.mean(g.square(g.sub(y, wanted)), {0, 1, 2, 3}));
  return g;
}

// The last loss of a few steps.
float train(Executor& executor) {
  Floats x(static_cast<size_t>(batch * heads * length * depth)), y(x.size());
  std::vector<uint8_t> seen(static_cast<size_t>(length * length));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 7) / 7 - 0.4f;
    y[i] = static_cast<float>(i % 5) / 5;
  }
  for (size_t i = 0; i < seen.size(); ++i) seen[i] = i % length <= i / length ? 1 : 0;
  float loss = 0;
  for (int i = 0; i < 5; ++i)
    must(executor.run({fed("x", x), fed("y", y), fed("seen", seen)}, {fetched("loss", loss)}));
  return loss;
}

}  // namespace

TEST_CASE("attention: a step whose model writes it as products has the device's own, and learns the same") {
  Runtime runtime = tenon::test::open();
  Device device = tenon::test::target(runtime);
  const TrainingGraph step =
      must(training_graph(attentive(), "loss", {.optimizer = {.op = Op::sgd, .rate = 0.1}}));
  float expected = 0;
  for (const std::string way : {"", "fuse_attention=false", "never_fuse=shares"}) {
    CAPTURE(way);
    Strategy strategy;
    const size_t equals = way.find('=');
    if (!way.empty()) must(strategy.set(way.substr(0, equals), way.substr(equals + 1)));
    auto opened = Executor::open(step, device, strategy);
    SKIP_IF_UNSUPPORTED(opened, "products");
    Executor executor = must(std::move(opened));
    must(begin(executor, 5));
    const float loss = train(executor);
    if (way.empty()) expected = loss;
    CHECK(loss == doctest::Approx(expected).epsilon(1e-4));
    const std::string told = executor.explain();
    const bool has = told.find("+ attention: ") != std::string::npos;
    if (!way.empty()) CHECK(!has);
    if (way.empty() && tenon::test::device_under_test().plugin == "cpu") CHECK(has);
    const bool is_kept = way == "never_fuse=shares" || (way.empty() && !has);
    CHECK((told.find("- attention: ") != std::string::npos) == is_kept);
  }
}
