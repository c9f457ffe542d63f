// SPDX-License-Identifier: Apache-2.0
// copies_test.cpp: a gradient is made where it is sent from, and one that is not is counted.
#include "integration/train/ranks.hpp"
#include "support/skip.hpp"

#include <doctest/doctest.h>

#include "samples/resnet/network.hpp"
#include "samples/transformer/network.hpp"

namespace {

using namespace train_test;

Result<Executor> open_on(Rank& r, const Graph& model, std::vector<Renewed> renewed, bool sharded) {
  Strategy strategy;
  strategy.sharded = sharded;
  TrainingOptions options = strategy.training();
  options.renewed = std::move(renewed);
  options.ranks = r.size;
  return open(r, {.strategy = strategy}, TN_TRY(training_graph(model, "loss", options)));
}

void check_none_copied(const Graph& model, const std::vector<Renewed>& renewed) {
  Device device = overlap_test::open_cpu();
  if (!plan(model, device).ok()) TENON_SKIP("products", "this build of the CPU plugin has none of f32");
  for (const bool sharded : {false, true}) {
    together(device, 2, [&](Rank& r) -> Status {
      const Executor executor = TN_TRY(open_on(r, model, renewed, sharded));
      const ExecutorFigures figures = executor.figures();
      TN_TRY(expect(figures.gradients > 30 && figures.copied_bytes == 0,
                    [&] { return std::to_string(figures.copied_bytes) + " bytes are copied"; }));
      return expect(executor.explain().find("\ncopied   none of ") != std::string::npos,
                    [&] { return executor.explain(); });
    });
  }
}

// Both weights have one gradient, so it is made in one place and sent from two.
Graph twins() {
  Graph g("twins");
  const auto x = g.input("x", {f32, {2, width}}), y = g.input("y", {f32, {2}});
  const auto w = g.add(g.param("a", {f32, {width}}), g.param("b", {f32, {width}}));
  g.output("loss", g.mean(g.square(g.sub(g.sum(g.mul(x, w), {1}), y)), {0}));
  return g;
}

}  // namespace

TEST_CASE("copies: no gradient of the residual network is copied to be sent") {
  const resnet::Network network({.batch = 2});
  check_none_copied(network.graph(), network.renewed());
}

TEST_CASE("copies: no gradient of the transformer is copied to be sent") {
  const transformer::Network network({.batch = 1, .length = 16}, true);
  check_none_copied(network.graph(), {});
}

TEST_CASE("copies: a gradient that is sent from two places is copied, counted, and in timelines") {
  together(2, [](Rank& r) -> Status {
    Timeline timeline = TN_TRY(Timeline::create(r.device, {.rank = r.rank}));
    const TrainingGraph step =
        TN_TRY(training_graph(twins(), "loss", {.optimizer = {.rate = 0.1}, .ranks = r.size}));
    Executor executor = TN_TRY(Executor::open(
        step, r.device, {}, r.comm, {.timeline = timeline, .target = overlap_test::eager_target()}));
    TN_TRY(begin(executor, 1));
    const Samples given = samples(2, r.rank);
    TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
    TN_TRY(executor.sync());
    uint64_t copied = 0;
    for (const TraceEvent& event : timeline.take().events) {
      const bool is_gradient = event.name == "a" || event.name == "b";
      if (event.kind == TraceKind::copy && is_gradient && event.bucket) copied += event.bytes;
    }
    const uint64_t counted = executor.figures().copied_bytes;
    TN_TRY(expect(counted == 2 * width * sizeof(float) && copied == counted, std::to_string(copied)));
    return expect(executor.explain().find("\ncopied   48 B of ") != std::string::npos, executor.explain());
  });
}
