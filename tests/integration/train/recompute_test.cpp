// SPDX-License-Identifier: Apache-2.0
// Relu's gradient behind a batch norm makes again what relu was given where the device has a fusion for it and the strategy lets
// that happen, and the step learns the same.
#include "integration/device.hpp"
#include "integration/train/model.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace train_test;
using tenon::test::must;

namespace {

// y = relu(bn(x · w))
Graph normalised() {
  Graph g("normalised");
  const TensorSpec image{f32, {4, 3, 6, 6}}, channel{f32, {3}};
  const auto x = g.input("x", image), wanted = g.input("y", image);
  const auto h = g.mul(x, g.param("w", {f32, {1, 3, 1, 1}}));
  const auto norm = g.batch_norm_train(h, g.param("scale", channel), g.param("bias", channel),
                                       g.param("running_mean", channel), g.param("running_var", channel));
  g.output("loss", g.mean(g.square(g.sub(g.relu(norm[0]), wanted)), {0, 1, 2, 3}));
  g.output("new_mean", norm[3]);
  g.output("new_var", norm[4]);
  return g;
}

// The last loss of a few steps.
float train(Executor& executor) {
  Floats x(432), y(432);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 7) / 7 - 0.4f;
    y[i] = static_cast<float>(i % 5) / 5;
  }
  float loss = 0;
  for (int i = 0; i < 5; ++i) must(executor.run({fed("x", x), fed("y", y)}, {fetched("loss", loss)}));
  return loss;
}

}  // namespace

TEST_CASE(
    "recompute: a step makes again what relu was given where its device serves that, and learns the same") {
  Runtime runtime = tenon::test::open();
  Device device = tenon::test::target(runtime);
  const TrainingGraph step =
      must(training_graph(normalised(), "loss",
                          {.optimizer = {.op = Op::sgd, .rate = 0.1},
                           .renewed = {{"running_mean", "new_mean"}, {"running_var", "new_var"}}}));
  const FusionTarget target = must(tenon::fusion_target(device));
  const bool is_served = !target.whole_graph &&
                         std::any_of(target.patterns.begin(), target.patterns.end(),
                                     [](const auto& pattern) { return pattern.name == "bn_act_backward"; });
  float expected = 0;
  for (const std::string way : {"", "fuse_bn_act_ops", "fuse_patterns"}) {
    CAPTURE(way);
    Strategy strategy;
    if (!way.empty()) must(strategy.set(way, "false"));
    auto opened = Executor::open(step, device, strategy);
    SKIP_IF_UNSUPPORTED(opened, "batch norms");
    Executor executor = must(std::move(opened));
    must(begin(executor, 5));
    const float loss = train(executor);
    if (way.empty()) expected = loss;
    CHECK(loss == doctest::Approx(expected).epsilon(1e-5));
    const std::string told = executor.explain();
    CHECK((told.find("+ recompute: ") != std::string::npos) == (is_served && way.empty()));
    CHECK((told.find("bn_act_backward") != std::string::npos) == (is_served && way.empty()));
  }
}
