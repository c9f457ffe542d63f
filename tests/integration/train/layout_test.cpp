// SPDX-License-Identifier: Apache-2.0
// Images of a step lie as its device prefers unless a strategy says how, filters with them unless it would rather not, and the step
// learns the same.
#include "integration/device.hpp"
#include "integration/train/model.hpp"

#include <doctest/doctest.h>

using namespace train_test;
using tenon::test::must;

namespace {

constexpr int64_t images = 4, size = 6;

// Two convolutions with an addition between them, so that something elementwise lies between images.
Graph convolutions() {
  Graph g("convolutions");
  const auto x = g.input("x", {f32, {images, 3, size, size}}),
             y = g.input("y", {f32, {images, 4, size, size}});
  const auto first = g.param("conv1.w", {f32, {4, 3, 3, 3}}),
             second = g.param("conv2.w", {f32, {4, 4, 3, 3}});
  const Graph::Attributes same{{"pad", std::vector<int64_t>{1, 1, 1, 1}}};
  const auto a = g.relu(g.conv2d(x, first, same));
  const auto b = g.add(g.conv2d(a, second, same), a);
  g.output("loss", g.mean(g.square(g.sub(b, y)), {0, 1, 2, 3}));
  return g;
}

// The last loss of a few steps.
float train(Executor& executor) {
  Floats x(images * 3 * size * size), y(images * 4 * size * size);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) / 7 - 0.4f;
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i % 5) / 5;
  float loss = 0;
  for (int i = 0; i < 5; ++i) must(executor.run({fed("x", x), fed("y", y)}, {fetched("loss", loss)}));
  return loss;
}

bool tells(const Executor& executor, const char* what) {
  return executor.explain().find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("layout: images lie as the device prefers, unless a strategy says how") {
  Runtime runtime = tenon::test::open();
  Device device = tenon::test::target(runtime);
  const TrainingGraph step =
      must(training_graph(convolutions(), "loss", {.optimizer = {.op = Op::sgd, .rate = 0.1}}));
  float expected = 0;
  for (const std::string layout : {"nchw", "nhwc", "auto"}) {
    CAPTURE(layout);
    Strategy strategy;
    strategy.layout = layout;
    auto opened = Executor::open(step, device, strategy);
    SKIP_IF_UNSUPPORTED(opened, "convolutions");
    Executor executor = must(std::move(opened));
    must(begin(executor, 5));
    const float loss = train(executor);
    if (layout == "nchw") expected = loss;
    CHECK(loss == doctest::Approx(expected).epsilon(1e-4));
    const uint32_t preferences = device.limits().preferences;
    const bool last =
        layout == "nhwc" || (layout == "auto" && (preferences & TN_PREFERS_CHANNELS_LAST_F32) != 0);
    CHECK(tells(executor, "conv2d in nhwc") == last);
    CHECK(tells(executor, "conv2.w: converted to nhwc") ==
          (last && (preferences & TN_PREFERS_FILTERS_DENSE) == 0));
  }
}

TEST_CASE(
    "layout: an order that the device does not have is refused with the nearest, one of its own is known") {
  Runtime runtime = tenon::test::open();
  Device device = tenon::test::target(runtime);
  Strategy strategy;
  strategy.layout = "nhwx";
  const auto refused = passes_for(convolutions(), strategy, device);
  CHECK(refused.code() == TN_INVALID);
  CHECK_HAS(std::string(refused.message()),
            "layout: " + device.name() +
                " has no order called 'nhwx' (did you mean 'nhwc'?): it has auto, nhwc, nchw");
  tn_string_list own{};
  tn_error error = no_error();
  must(status_of(device.plugin().kernel->layouts(device.handle(), &own, &error), error));
  for (uint64_t i = 0; i < own.count; ++i) {
    CHECK_HAS(std::string(refused.message()), std::string(", ") + own.items[i]);
    strategy.layout = own.items[i];
    CHECK(must(passes_for(convolutions(), strategy, device)).layout->prefer == own.items[i]);
  }
}
