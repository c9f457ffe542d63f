// SPDX-License-Identifier: Apache-2.0
// Epochs whose last step has fewer samples, on fewer ranks or on none of some: weights are those of one rank that has them all,
// all ranks have the same bits, and what cannot be is told before anything runs.
#include "integration/train/ranks.hpp"

#include <tenon/loader.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace {

using namespace train_test;

// Epochs of a full step and one of `rest` samples.
std::vector<int64_t> epochs(int64_t rest) {
  std::vector<int64_t> out;
  for (int i = 0; i < 7; ++i) out.insert(out.end(), {batch, rest});
  return out;
}

}  // namespace

TEST_CASE("uneven: however the last samples lie on ranks, weights are those of one rank that has them all") {
  for (const int64_t rest : {1, 3, 4, 7}) {
    CAPTURE(rest);
    const Everything alone = trained(1, {}, epochs(rest))[0];
    for (const uint32_t size : {2u, 4u}) check_weights(alone, trained(size, {}, epochs(rest)));
  }
}

TEST_CASE("uneven: so they are in whatever way steps are run, captured or launched") {
  for (Way way : ways()) {
    CAPTURE(way.name);
    const Everything alone = trained(1, way, epochs(3))[0];
    const std::vector<Everything> captured = trained(2, way, epochs(3));
    check_weights(alone, captured);
    way.strategy.capture = false;
    CHECK(captured == trained(2, way, epochs(3)));
    CHECK(!captured[0].empty());
  }
}

TEST_CASE("uneven: in halves with loss scaling, a rank without samples renews what the others do") {
  for (const Way& way : ways_in_halves()) {
    CAPTURE(way.name);
    const std::vector<Everything> found = trained(2, way, epochs(3));
    CHECK(found[0] == found[1]);
    CHECK(!found[0].empty());
  }
}

TEST_CASE("uneven: a bad step is bad for a rank without samples, too") {
  together(2, [&](Rank& r) -> Status {
    TrainingOptions options{.scaling = LossScaling{.init = 16, .decr_every_n_nan_or_inf = 1}, .ranks = 2};
    const TrainingGraph step = TN_TRY(training_graph(network(4), "loss", options));
    Executor executor = TN_TRY(open(r, {}, step));
    TN_TRY(begin(executor, 1));
    Samples given = samples(4, 1);
    TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
    const Everything before = TN_TRY(everything(executor));
    given.x[0] = std::numeric_limits<float>::infinity();
    if (r.rank == 1) given = {};
    TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
    const Everything behind = TN_TRY(everything(executor));
    for (const auto& [name, bytes] : before) {
      const bool is_scaling = name == "training.scale" || name == "training.good" || name == "training.bad" ||
                              name == "training.skipped";
      TN_TRY(expect(is_scaling || behind.at(name) == bytes, name));
    }
    return expect(TN_TRY(executor.value("training.scale")) == 8, "the scale halves");
  });
}

namespace {

// A weight, and the mean of inputs as a model renews it by itself.
Graph remembering(int64_t rows) {
  Graph g("remembering");
  const auto x = g.input("x", {f32, {rows, 1}});
  const auto w = g.param("w", {f32, {1}}), seen = g.param("seen", {f32, {1}});
  g.output("seen.new", g.add(seen, g.mean(x, {0})));
  g.output("loss", g.mean(g.square(g.sub(g.mul(x, w), seen)), {0, 1}));
  return g;
}

}  // namespace

TEST_CASE("uneven: what a model renews by its samples stays as it is on a rank without any") {
  for (const bool in_place : {true, false}) {
    CAPTURE(in_place);
    together(2, [&](Rank& r) -> Status {
      TrainingOptions options{.renewed = {{"seen", "seen.new"}}, .ranks = 2};
      Strategy strategy;
      strategy.enable_inplace = in_place;
      const TrainingGraph step = TN_TRY(training_graph(remembering(2), "loss", options));
      Executor executor =
          TN_TRY(Executor::open(step, r.device, strategy, r.comm, {.target = eager_target()}));
      TN_TRY(executor.set("w", bytes_of({0.5f})));
      TN_TRY(executor.set("seen", bytes_of({0})));
      const Floats x{3, 5};
      float expected = 0;
      for (const bool full : {true, false, false, true, false, true, true}) {
        const bool mine = full || r.rank == 0;
        expected += mine ? 4.0f : 0.0f;
        TN_TRY(executor.run({fed("x", mine ? x : Floats())}));
        TN_TRY(expect(TN_TRY(executor.value("seen")) == static_cast<double>(expected), "seen"));
      }
      const double w = TN_TRY(executor.value("w"));
      return expect(w != 0.5 && std::isfinite(w), "the weight was trained");
    });
  }
}

TEST_CASE("uneven: a loader's epochs as it gives them") {
  constexpr int64_t all = 21, mine_full = batch / 2;  // on two ranks: 8, 8, and 4 and 1
  const Samples numbers = samples(all, 5);
  const auto kept = [](const Floats& from) {
    const auto bytes = std::as_bytes(std::span(from));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const auto found = everyones(overlap_test::open_cpu(), 2, [&](Rank& r) -> Result<Everything> {
    Dataset data =
        TN_TRY(memory_dataset({{"x", {f32, {width}}, kept(numbers.x)}, {"y", {f32, {1}}, kept(numbers.y)}}));
    Loader loader = TN_TRY(
        Loader::open(r.device, std::move(data),
                     {.batch = mine_full, .rank = r.rank, .ranks = 2, .uneven = Uneven::join, .seed = 3}));
    const uint64_t last = loader.batch(loader.steps() - 1);
    TN_TRY(expect(loader.steps() == 3 && loader.batch(0) == mine_full && last == (r.rank == 0 ? 4 : 1),
                  "batches"));
    Executor executor = TN_TRY(open(r, {}, TN_TRY(step_of({}, 2, mine_full, mine_full))));
    if (last != mine_full)
      TN_TRY(executor.also(TN_TRY(step_of({}, 2, static_cast<int64_t>(last), mine_full))));
    TN_TRY(begin(executor, 1));
    TN_TRY(executor.share());
    for (uint64_t step = 0; step < 4 * loader.steps(); ++step) {
      const Batch mine = TN_TRY(loader.next(executor.stream()));
      TN_TRY(executor.run(mine.bindings()));
    }
    return everything(executor);
  });
  CHECK(found[0] == found[1]);
  CHECK(!found[0].empty());
}

TEST_CASE("uneven: what cannot be is told before anything runs") {
  together(2, [&](Rank& r) -> Status {
    const TrainingGraph step = TN_TRY(step_of({}, 2, 4, 4));
    Executor executor = TN_TRY(open(r, {}, step));
    TN_TRY(begin(executor, 1));
    const auto refused = [&](const Result<TrainingGraph>& other, int32_t code, const std::string& words) {
      const Status why = other.ok() ? executor.also(*other) : Status(other.error());
      return expect(why.code() == code && why.message().find(words) != std::string::npos,
                    words + ", told is: " + std::string(why.message()));
    };
    TN_TRY(refused(step_of({}, 1, 3, 4), TN_INVALID, "the step is for 1 ranks, the full one for 2"));
    TN_TRY(refused(step_of({}, 2, 3, 8), TN_INVALID, "give TrainingOptions::samples for both"));
    TN_TRY(refused(step_of({}, 2, 5, 4), TN_INVALID, "samples = 5 of full_batch = 4"));
    TN_TRY(refused(step_of({}, 2, 4, 4), TN_INVALID, "the step has 4 of 4 samples"));
    TN_TRY(refused(training_graph(regression(3), "loss", {.ranks = 2, .samples = 3, .full_batch = 4}),
                   TN_INVALID, "it trains or renews other parameters"));
    TN_TRY(refused(training_graph(network(3), "loss",
                                  {.ranks = 2, .uneven_batches = false, .samples = 3, .full_batch = 4}),
                   TN_INVALID, "uneven_batches = false"));
    TN_TRY(refused(training_graph(network(3), "loss",
                                  {.ranks = 2, .sync_batch_norm = true, .samples = 3, .full_batch = 4}),
                   TN_INVALID, "sync_batch_norm"));
    TN_TRY(executor.also(TN_TRY(step_of({}, 2, 3, 4))));
    TN_TRY(refused(step_of({}, 2, 3, 4), TN_INVALID, "there is a step with inputs of these sizes"));
    const Samples two = samples(2, 1);
    const auto ran = executor.run({fed("x", two.x), fed("y", two.y)});
    TN_TRY(expect(!ran.ok() && ran.error().message.find("fit no step of fewer samples") != std::string::npos,
                  "two"));
    const Samples three = samples(3, 1);
    TN_TRY(executor.run({fed("x", three.x), fed("y", three.y)}));
    return executor.sync();
  });
}

TEST_CASE(
    "uneven: no samples at all are refused where nobody brings some in their place, or sums are known") {
  const std::pair<TrainingOptions, const char*> cases[] = {
      {{.ranks = 1}, "a step of one rank has samples"},
      {{.ranks = 2, .uneven_batches = false},
       "uneven_batches = false says that all ranks bring as many samples"}};
  for (const auto& [options, words] : cases) {
    together(options.ranks, [&, &options = options, &words = words](Rank& r) -> Status {
      const TrainingGraph step = TN_TRY(training_graph(network(4), "loss", options));
      Executor executor = TN_TRY(open(r, {}, step));
      TN_TRY(begin(executor, 1));
      const Floats none;
      const auto ran = executor.run({fed("x", none), fed("y", none)});
      TN_TRY(expect(ran.code() == TN_INVALID && ran.message().find(words) != std::string_view::npos,
                    std::string(ran.message())));
      return expect(executor.steps() == 0, "a step ran");
    });
  }
}

TEST_CASE("ranks: what follows the sums is alike on all of them, or they are told before the first step") {
  const std::pair<TrainingOptions, const char*> cases[] = {
      {{.optimizer = {.op = Op::momentum, .attributes = {{"momentum", 0.5}}}}, "momentum 0.5"},
      {{.optimizer = {.op = Op::momentum, .rate = 0.5}}, "rate 0.5"},
      {{.optimizer = {.op = Op::momentum}, .clip_norm = 0.5}, "clip_norm 0.5"},
      {{.optimizer = {.op = Op::momentum}, .scaling = LossScaling{}}, "loss scaling dynamic"}};
  for (const auto& [odd, words] : cases) {
    together(2, [&, &odd = odd, &words = words](Rank& r) -> Status {
      TrainingOptions options{.optimizer = {.op = Op::momentum}};
      if (r.rank == 1) options = odd;
      options.ranks = 2;
      const auto opened = open(r, {}, TN_TRY(training_graph(network(4), "loss", options)));
      const std::string told(opened.message());
      return expect(opened.code() == TN_MISMATCH && told.find(words) != std::string::npos &&
                        told.find("rank 1 has") != std::string::npos,
                    told);
    });
  }
}

TEST_CASE("uneven: ranks that count samples in other batches are told before the first step") {
  together(2, [](Rank& r) -> Status {
    const int64_t full = r.rank == 0 ? 4 : 8;
    const TrainingGraph step = TN_TRY(step_of({}, 2, full, full));
    const auto opened = open(r, {}, step);
    const std::string told(opened.message());
    return expect(opened.code() == TN_MISMATCH && told.find("full_batch 4") != std::string::npos &&
                      told.find("full_batch 8") != std::string::npos,
                  told);
  });
}
