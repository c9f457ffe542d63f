// SPDX-License-Identifier: Apache-2.0
// Steps of several ranks: the same samples give the same weights however many share them, all ranks have the same bits, and
// what goes wrong is told.
#include "integration/train/ranks.hpp"
#include "plan/state.hpp"
#include "support/full.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <iterator>

using namespace train_test;

TEST_CASE("ranks: 1 x 8, 2 x 4 and 4 x 2 samples give the same weights") {
  const std::vector<int64_t> steps(12, batch);
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    const Everything alone = trained(1, way, steps)[0];
    for (const uint32_t size : {2u, 4u}) check_weights(alone, trained(size, way, steps));
  }
}

TEST_CASE("ranks: steps that are captured between buckets give the bits of those that are launched") {
  const std::vector<int64_t> steps(20, batch);
  for (Way way : ways()) {
    CAPTURE(way.name);
    const std::vector<Everything> captured = trained(2, way, steps);
    way.strategy.capture = false;
    CHECK(captured == trained(2, way, steps));
    CHECK(!captured[0].empty());
  }
}

TEST_CASE("ranks: in halves, all have the same bits") {
  for (const Way& way : ways_in_halves()) {
    CAPTURE(way.name);
    const std::vector<Everything> found = trained(2, way, std::vector<int64_t>(12, batch));
    CHECK(found[0] == found[1]);
    CHECK(!found[0].empty());
  }
}

namespace {

// Twelve steps of `size` deterministic ranks: in one go, or the last of them in new executors from what rank 0 saved.
std::vector<Everything> resumed(uint32_t size, const Way& way, uint64_t at) {
  const tenon::test::TempFolder home;
  const std::string file = home.path() + "/saved.safetensors";
  std::vector<Everything> out(size);
  std::mutex mutex;
  const auto run = [&](Rank& r, uint64_t first, uint64_t end) -> Status {
    Executor executor = TN_TRY(open(r, way, TN_TRY(step_of(way, size, batch / size))));
    if (first == 0) {
      TN_TRY(begin(executor, 1));
    } else {
      TN_TRY(executor.restore(TN_TRY(Checkpoint::read(file))));
    }
    for (uint64_t i = first; i < end; ++i) {
      const Samples given = part(r, i);
      TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
    }
    if (r.rank == 0) TN_TRY(executor.save(file));
    const Everything found = TN_TRY(everything(executor));
    const std::lock_guard lock(mutex);
    out[r.rank] = found;
    return {};
  };
  constexpr uint64_t all = 12;
  uint64_t first = 0;
  for (const uint64_t end : {at, all}) {
    if (first == end) continue;
    together(size, [&](Rank& r) { return run(r, first, end); }, {.deterministic = true});
    first = end;
  }
  return out;
}

}  // namespace

TEST_CASE(
    "ranks: deterministic ones that go on from rank 0's checkpoint end with the bits they would have had") {
  std::vector<Way> all = ways();
  std::ranges::move(ways_in_halves(), std::back_inserter(all));
  for (const Way& way : all) {
    for (const uint32_t size : {2u, 4u}) {
      if (size == 4 && &way != &all.front() && !tenon::test::full_run()) continue;
      CAPTURE(way.name);
      CAPTURE(size);
      const std::vector<Everything> undisturbed = resumed(size, way, 12);
      CHECK(!undisturbed[0].empty());
      CHECK(resumed(size, way, 5) == undisturbed);
    }
  }
}

TEST_CASE("ranks: what one rank finds not finite makes the step bad for all") {
  together(2, [&](Rank& r) -> Status {
    const TrainingGraph step = TN_TRY(
        training_graph(network(batch / 2), "loss",
                       {.scaling = LossScaling{.init = 16, .decr_every_n_nan_or_inf = 1}, .ranks = 2}));
    Executor executor = TN_TRY(Executor::open(step, r.device, {}, r.comm, {.target = eager_target()}));
    TN_TRY(begin(executor, 1));
    for (uint64_t i = 0; i < 4; ++i) {
      Samples given = part(r, i);
      if (i == 2 && r.rank == 1) given.x[0] = std::nanf("");
      const Everything before = TN_TRY(everything(executor));
      TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
      const bool is_bad = TN_TRY(executor.value("training.found_inf.now"))
      != 0;
      TN_TRY(expect(is_bad == (i == 2), "found_inf"));
      TN_TRY(expect((before.at("fc1.w") == TN_TRY(executor.get("fc1.w"))) == is_bad, "weights"));
    }
    return expect(TN_TRY(executor.value("training.scale")) == 8, "scale");
  });
}

TEST_CASE("ranks: figures tell what is sent, and gradients are made where they leave from") {
  together(2, [&](Rank& r) -> Status {
    Way each{"each alone"};
    each.strategy.bucket_mode = BucketRule::per_tensor;
    each.strategy.warm_up_steps = 0;
    Executor executor = TN_TRY(open(r, each, TN_TRY(step_of(each, 2, batch / 2))));
    const ExecutorFigures f = executor.figures();
    TN_TRY(expect(f.gradients == 4 && f.all_reduces == 4, "counts"));
    const uint64_t numbers = static_cast<uint64_t>(width) * 5 + 5 + 5 + 1;
    TN_TRY(expect(f.sent_bytes >= numbers * sizeof(float) && f.gradient_bytes >= f.sent_bytes, "bytes"));
    for (const auto& exchange : executor.plan().state().exchanges)
      TN_TRY(expect(exchange.from.bound == exchange.bound, "a gradient is copied"));
    const std::string text = executor.explain();
    TN_TRY(expect(text.find("exchange 4 all_reduces before launch") != std::string::npos, text));
    return expect(text.find("4 all-reduce operators") != std::string::npos, text);
  });
}

TEST_CASE("ranks: a failed step is the end, and says that a checkpoint is needed") {
  together(2,
           [&](Rank& r) -> Status {
             Executor executor = TN_TRY(open(r, {}, TN_TRY(step_of({}, 2, batch / 2))));
             TN_TRY(begin(executor, 1));
             TN_TRY(executor.share());
             const Samples given = part(r, 1);
             TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
             if (r.rank == 1) return {};  // leaves
             Status last;
             for (int i = 0; i < 50 && last.ok(); ++i) {
               float loss = 0;
               const auto ran = executor.run({fed("x", given.x), fed("y", given.y)}, {fetched("loss", loss)});
               if (!ran.ok()) last = Status(ran.error());
             }
             TN_TRY(expect(!last.ok(), "nothing failed"));
             TN_TRY(expect(last.error().message.find("restore a checkpoint") != std::string::npos,
                           last.error().message));
             return expect(executor.get("fc1.w").code() == last.code(), "a later call does not tell");
           },
           {.timeout = std::chrono::seconds(5)});
}
