// SPDX-License-Identifier: Apache-2.0
// Batches of several sizes in one executor: each runs as a step of its own would, whatever came before, and outputs and inputs
// are as long as they are there.
#include "integration/device.hpp"
#include "integration/train/model.hpp"

#include <doctest/doctest.h>

using namespace train_test;
using tenon::test::must;

namespace {

constexpr int64_t full_rows = 6, short_rows = 2;

struct SizesWorld {
  Runtime runtime = tenon::test::open();
  Device device = tenon::test::target(runtime);
};

TrainingGraph sized_step(int64_t rows) {
  return must(training_graph(network(rows), "loss",
                             {.optimizer = {.op = Op::momentum},
                              .samples = static_cast<uint64_t>(rows),
                              .full_batch = static_cast<uint64_t>(full_rows)}));
}

// A step of these rows, and its outputs.
struct Told {
  float loss = 0;
  Floats guess{};
};
Told run_rows(Executor& executor, int64_t rows, uint64_t seed) {
  Told out{.guess = Floats(static_cast<size_t>(rows))};
  const Samples given = samples(rows, seed);
  CHECK(must(executor.run({fed("x", given.x), fed("y", given.y)},
                          {fetched("loss", out.loss), fetched("guess", out.guess)})));
  return out;
}

}  // namespace

TEST_CASE("batches: a shorter one is the step that an executor of its own runs") {
  SizesWorld w;
  for (const bool in_place : {true, false}) {
    CAPTURE(in_place);
    Strategy strategy;
    strategy.enable_inplace = in_place;
    Executor both = must(Executor::open(sized_step(full_rows), w.device, strategy));
    must(both.also(sized_step(short_rows)));
    must(begin(both, 7));
    Executor full = must(Executor::open(sized_step(full_rows), w.device, strategy));
    Executor brief = must(Executor::open(sized_step(short_rows), w.device, strategy));
    must(begin(full, 7));
    uint64_t seed = 0;
    for (const int64_t rows :
         {full_rows, short_rows, short_rows, full_rows, full_rows, short_rows, full_rows}) {
      CAPTURE(seed);
      Executor& alone = rows == full_rows ? full : brief;
      for (const auto& [name, bytes] : must(everything(both))) must(alone.set(name, bytes));
      const Told expected = run_rows(alone, rows, seed), found = run_rows(both, rows, seed);
      CHECK(found.loss == expected.loss);
      CHECK(found.guess == expected.guess);
      CHECK(must(both.value("loss")) == static_cast<double>(expected.loss));
      CHECK(must(everything(both)) == must(everything(alone)));
      ++seed;
    }
    CHECK(both.steps() == 7);
  }
}

TEST_CASE("batches: memory is for the larger, and explain tells of all") {
  SizesWorld w;
  Executor executor = must(Executor::open(sized_step(full_rows), w.device));
  const ExecutorFigures before = executor.figures();
  must(executor.also(sized_step(short_rows)));
  const ExecutorFigures behind = executor.figures();
  CHECK(behind.between_bytes == before.between_bytes);
  CHECK(behind.lasting_bytes == before.lasting_bytes);
  CHECK(executor.explain().find("batches  of 6 samples, of 2 in ") != std::string::npos);
}

TEST_CASE("batches: an output is fetched as long as it is") {
  SizesWorld w;
  Executor executor = must(Executor::open(sized_step(full_rows), w.device));
  must(executor.also(sized_step(short_rows)));
  must(begin(executor, 1));
  const Samples given = samples(short_rows, 1);
  Floats guess(full_rows);
  const auto ran = executor.run({fed("x", given.x), fed("y", given.y)}, {fetched("guess", guess)});
  CHECK(ran.code() == TN_INVALID);
  CHECK(ran.message() == "executor: output 'guess' has 8 bytes, it is to be written to 24");
  CHECK(executor.steps() == 0);
}
