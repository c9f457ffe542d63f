// SPDX-License-Identifier: Apache-2.0
// events_test.cpp: what a step does beside its launches and buckets is in its timeline, too: waits for inputs, sums that updates
// need, copies that are fetched, and what the host waits for.
#include "integration/train/ranks.hpp"

#include <doctest/doctest.h>

namespace {

using namespace train_test;

struct Seen {
  TraceKind kind = TraceKind::wait;
  std::string stream, name;
  friend auto operator<=>(const Seen&, const Seen&) = default;
};

// How often there is an event of this kind, stream and name.
std::map<Seen, int> counted(const Trace& trace) {
  std::map<Seen, int> out;
  for (const TraceEvent& event : trace.events)
    ++out[{event.kind, trace.lanes[event.lane].stream, event.name}];
  return out;
}

constexpr int measured_steps = 3;

Result<Trace> steps_measured(Rank& r, const Strategy& strategy, TrainingOptions options) {
  options.ranks = r.size;
  Timeline timeline = TN_TRY(Timeline::create(r.device, {.rank = r.rank}));
  const TrainingGraph step = TN_TRY(training_graph(network(2), "loss", options));
  Executor executor = TN_TRY(Executor::open(
      step, r.device, strategy, r.comm,
      {.timeline = timeline,
       .target = strategy.sharded ? overlap_test::eager_shards() : overlap_test::eager_target()}));
  TN_TRY(begin(executor, 1));
  TN_TRY(executor.sync());
  static_cast<void>(timeline.take());
  for (uint64_t i = 0; i < measured_steps; ++i) {
    const Samples given = samples(2, r.size * i + r.rank);
    float loss = 0;
    TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}, {fetched("loss", loss)}));
  }
  return timeline.take();
}

Status expect_each_step(const std::map<Seen, int>& found, const std::vector<Seen>& wanted) {
  for (const Seen& one : wanted) {
    const auto at = found.find(one);
    TN_TRY(expect(at != found.end() && at->second == measured_steps, [&] {
      std::string all =
          std::string(name(one.kind)) + " '" + one.name + "' on '" + one.stream + "' is not one of\n";
      for (const auto& [seen, count] : found)
        all += std::to_string(count) + " " + std::string(name(seen.kind)) + " '" + seen.name + "' on '" +
               seen.stream + "'\n";
      return all;
    }));
  }
  return {};
}

}  // namespace

TEST_CASE("events: a step's waits for its inputs, its fetches, and the host's waits are in its timeline") {
  together(2, [](Rank& r) -> Status {
    const Trace trace = TN_TRY(steps_measured(r, {}, {.optimizer = {.rate = 0.1}}));
    return expect_each_step(counted(trace), {{TraceKind::wait, "compute", "inputs"},
                                             {TraceKind::wait, "inputs", "inputs"},
                                             {TraceKind::copy, "inputs", "x"},
                                             {TraceKind::copy, "compute", "loss"},
                                             {TraceKind::host, "host", "inputs"},
                                             {TraceKind::host, "host", "fetches"}});
  });
}

TEST_CASE("events: sums that the updates of shards need are collectives of the timeline") {
  together(2, [](Rank& r) -> Status {
    Strategy strategy;
    strategy.sharded = true;
    TrainingOptions options = strategy.training();
    options.optimizer = {.op = Op::adam, .rate = 0.02};
    options.scaling = LossScaling{.init = 16};
    options.clip_norm = 1;
    const Trace trace = TN_TRY(steps_measured(r, strategy, options));
    int sums = 0;
    for (const auto& [seen, count] : counted(trace))
      sums += seen.kind == TraceKind::collective && seen.stream == "compute" ? count : 0;
    return expect(sums == 2 * measured_steps, "found " + std::to_string(sums));  // a verdict and a norm
  });
}

TEST_CASE("events: gathers are of their buckets, with a row of their own beside what was predicted") {
  together(2, [](Rank& r) -> Status {
    Strategy strategy;
    strategy.sharded = true;
    strategy.bucket_mode = BucketRule::per_tensor;
    const Trace trace = TN_TRY(steps_measured(r, strategy, {.optimizer = {.rate = 0.1}}));
    const std::vector<TraceBucket> buckets = summarize(trace).buckets;
    TN_TRY(expect(buckets.size() == 8, std::to_string(buckets.size()) + " rows"));
    for (uint32_t i = 0; i < buckets.size(); ++i) {
      const std::string own = "bucket " + std::to_string(i / 2);
      TN_TRY(expect(
          buckets[i].bucket == i / 2 && buckets[i].count == measured_steps && buckets[i].predicted_ns > 0,
          own));
      TN_TRY(expect(buckets[i].name == (i % 2 == 0 ? own : "gather of " + own), buckets[i].name));
    }
    return {};
  });
}
