// SPDX-License-Identifier: Apache-2.0
// tune_test.cpp: a strategy is tuned on the CPU plugin: what is tried, what is left alone, and that ranks choose alike.
#include "integration/device.hpp"
#include "integration/train/model.hpp"

#include <doctest/doctest.h>

#include <thread>

using namespace train_test;
using tenon::test::must;

namespace {

TrainingGraph step_of(uint32_t ranks = 1) {
  return must(training_graph(network(8), "loss", {.optimizer = {.op = Op::momentum}, .ranks = ranks}));
}

TuneOptions quick() {
  TuneOptions out{.runtime = tenon::test::built_plugins({}), .warm_ups = 1, .patience_ms = 1};
  out.runtime.log = tenon::test::say_nothing;
  return out;
}

bool tries(const Tuned& tuned, std::string_view option) {
  return std::any_of(tuned.trials.begin(), tuned.trials.end(),
                     [&](const Tuned::Trial& one) { return one.setting.starts_with(option); });
}

}  // namespace

TEST_CASE("tune: what nobody has set is tried, and what is taken was faster") {
  const Tuned tuned = must(tune(step_of(), {}, quick()));
  CHECK(tries(tuned, "device_threads = "));
  CHECK(tries(tuned, "capture = false"));
  CHECK(tries(tuned, "fuse_patterns = false"));
  CHECK_FALSE(tries(tuned, "layout"));      // nothing to lay out
  CHECK_FALSE(tries(tuned, "enable_pad"));  // no halves
  CHECK(tuned.before_ms > 0);
  Strategy expected;
  for (const Tuned::Trial& trial : tuned.trials) {
    CAPTURE(trial.setting);
    CHECK(trial.why_not == "");
    CHECK(trial.ms > 0);
    if (!trial.is_taken) continue;
    CHECK(trial.ratio > 1);
    const size_t equals = trial.setting.find(" = ");
    must(expected.set(trial.setting.substr(0, equals), trial.setting.substr(equals + 3)));
  }
  CHECK(tuned.strategy.text() == expected.text());
  CHECK(tuned.explain().find("  capture = false: ") != std::string::npos);
}

TEST_CASE("tune: what somebody has set is left alone") {
  Strategy strategy;
  strategy.capture = true;
  must(strategy.set("device_threads", "2", "somebody"));
  strategy.amp = true;
  const Tuned tuned = must(tune(step_of(), strategy, quick()));
  CHECK_FALSE(tries(tuned, "capture"));
  CHECK_FALSE(tries(tuned, "device_threads"));
  CHECK(tries(tuned, "enable_pad = true"));
  CHECK(tuned.strategy.device_threads == 2u);
}

TEST_CASE("tune: a batch of the caller's is what steps are fed") {
  const Samples given = samples(8, 1);
  TuneOptions options = quick();
  options.batch = {fed("x", given.x), fed("y", given.y)};
  CHECK(tune(step_of(), {}, options).ok());
  options.batch.pop_back();
  const auto failed = tune(step_of(), {}, options);
  CHECK(failed.code() == TN_INVALID);
  CHECK(failed.message().find("'y'") != std::string::npos);
}

TEST_CASE("tune: a device that is not there is an error, not a trial") {
  TuneOptions options = quick();
  options.device = "abacus";
  CHECK(tune(step_of(), {}, options).code() == TN_NOT_FOUND);
}

TEST_CASE("tune: ranks see the slowest one's times, and choose alike") {
  constexpr uint32_t ranks = 2;
  const Store store = Store::in_process();
  std::string texts[ranks], trials[ranks];
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      TuneOptions options = quick();
      options.here = {.rank = rank, .size = ranks, .store = store};
      const auto tuned = tune(step_of(ranks), {}, options);
      texts[rank] = tuned.ok() ? tuned->strategy.text() : std::string(tuned.message());
      trials[rank] = tuned.ok() ? tuned->explain() : "";
    });
  }
  for (std::thread& one : threads) one.join();
  CHECK(texts[0] == texts[1]);
  CHECK(trials[0] == trials[1]);
  CHECK_MESSAGE(trials[0] != "", texts[0]);
}
