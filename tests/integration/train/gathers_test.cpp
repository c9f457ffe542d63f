// SPDX-License-Identifier: Apache-2.0
// gathers_test.cpp: in sharded mode weights come back in the order in which the next forward reads them.
#include "integration/train/ranks.hpp"

#include <doctest/doctest.h>

namespace {

using namespace train_test;

constexpr int64_t gathered_layers = 5;

// Layers without biases, so that each has one weight, and a bucket of its own where each gradient has.
Graph chain(int64_t rows) {
  Graph g("chain");
  GraphValue h = g.input("x", {f32, {rows, width}});
  for (int64_t i = 0; i < gathered_layers; ++i) {
    const auto w = g.param("fc" + std::to_string(i) + ".w", {f32, {width, width}});
    h = g.named("h" + std::to_string(i)).tanh(product(g, h, w, rows, width, width));
  }
  g.output("loss", g.mean(g.square(h), {0, 1}));
  return g;
}

// Names of one rank's events of a kind in lanes that are `compute` or are not, by when they began.
std::vector<std::string> names_of(const Trace& trace, TraceKind kind, bool computes) {
  std::vector<TraceEvent> found;
  for (const TraceEvent& event : trace.events) {
    const bool here = (trace.lanes[event.lane].stream == "compute") == computes;
    if (here && event.kind == kind && event.name.starts_with("gather of bucket")) found.push_back(event);
  }
  std::ranges::stable_sort(found, {}, &TraceEvent::begin_ns);
  std::vector<std::string> out;
  for (const TraceEvent& event : found) out.push_back(event.name);
  return out;
}

Status gather_in_order(Rank& r, const Strategy& strategy) {
  TrainingOptions options = strategy.training();
  options.ranks = r.size;
  Timeline timeline = TN_TRY(Timeline::create(r.device, {.rank = r.rank}));
  Executor executor =
      TN_TRY(Executor::open(TN_TRY(training_graph(chain(2), "loss", options)), r.device, strategy, r.comm,
                            {.timeline = timeline, .target = overlap_test::eager_shards()}));
  TN_TRY(executor.initialize(1));
  const auto step = [&](uint64_t i) { return executor.run({fed("x", samples(2, r.size * i + r.rank).x)}); };
  TN_TRY(step(0));
  TN_TRY(executor.sync());
  static_cast<void>(timeline.take());
  TN_TRY(step(1));
  TN_TRY(executor.sync());
  const Trace trace = timeline.take();
  const auto sent = names_of(trace, TraceKind::collective, false),
             read = names_of(trace, TraceKind::wait, true);
  TN_TRY(expect(sent.size() == gathered_layers, executor.explain()));
  return expect(sent == read, [&] { return "gathered first: " + sent[0] + ", read first: " + read[0]; });
}

}  // namespace

TEST_CASE("sharded: weights come back in the order in which forward reads them") {
  for (const bool even : {false, true}) {
    for (const uint32_t size : {2u, 3u}) {
      CAPTURE(even);
      CAPTURE(size);
      Strategy strategy;
      strategy.sharded = true;
      strategy.uneven_batches = !even;
      strategy.bucket_mode = BucketRule::per_tensor;
      strategy.nccl_comm_num = 1;
      together(size, [&](Rank& r) { return gather_in_order(r, strategy); });
    }
  }
}
