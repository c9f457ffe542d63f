// SPDX-License-Identifier: Apache-2.0
// Mixed precision of whole steps: halves learn what floats learn, masters keep what halves would lose, and what a step adds to
// its model stays f32.
#include "integration/device.hpp"
#include "integration/train/model.hpp"

#include <doctest/doctest.h>

using namespace train_test;
using tenon::test::must;

namespace {

constexpr int64_t rows = 8;

Strategy amp(passes::AmpLevel level, DType half) {
  Strategy out;
  out.amp = true;
  out.amp_level = level;
  out.amp_dtype = half;
  out.init_loss_scaling = 1024;
  out.custom_white_list = {"mul"};  // the network's products
  return out;
}

float train(Executor& executor, int steps) {
  float loss = 0;
  for (int i = 0; i < steps; ++i) {
    const Samples given = samples(rows, static_cast<uint64_t>(i));
    must(executor.run({fed("x", given.x), fed("y", given.y)}, {fetched("loss", loss)}));
  }
  return loss;
}

}  // namespace

TEST_CASE("precision: O1 and O2 in both halves learn as f32 does, with and without a limit of the norm") {
  Runtime runtime = tenon::test::open();
  Device device = tenon::test::target(runtime);
  for (const double clip_norm : {0.0, 1.0}) {
    const auto open = [&](const Strategy& strategy) {
      TrainingOptions options = strategy.training();
      options.optimizer = {.op = Op::adam, .rate = 0.02};
      options.clip_norm = clip_norm;
      return Executor::open(must(training_graph(network(rows), "loss", options)), device, strategy);
    };
    Executor plain = must(open({}));
    must(begin(plain, 2));
    train(plain, 80);
    const float expected = train(plain, 1);
    for (const DType half : {bf16, f16}) {
      for (const auto level : {passes::AmpLevel::O1, passes::AmpLevel::O2}) {
        CAPTURE(name(half));
        CAPTURE(static_cast<int>(level));
        auto opened = open(amp(level, half));
        SKIP_IF_UNSUPPORTED(opened, "halves");
        Executor mixed = must(std::move(opened));
        must(begin(mixed, 2));
        train(mixed, 80);
        CHECK(train(mixed, 1) == doctest::Approx(expected).epsilon(0.35));
        CHECK(mixed.step().scale.empty() == (half == bf16));
      }
    }
  }
}

TEST_CASE("precision: an update too small for a half is not lost") {
  Runtime runtime = tenon::test::open();
  Device device = tenon::test::target(runtime);
  Strategy strategy = amp(passes::AmpLevel::O2, bf16);
  const TrainingGraph step =
      must(training_graph(network(rows), "loss", {.optimizer = {.op = Op::sgd, .rate = 1e-5}}));
  auto opened = Executor::open(step, device, strategy);
  SKIP_IF_UNSUPPORTED(opened, "halves");
  Executor executor = must(std::move(opened));
  must(begin(executor, 4));
  const Floats before = as<float>(must(executor.get("fc1.w")));
  const Samples given = samples(rows, 1);
  for (int i = 0; i < 3; ++i) must(executor.run({fed("x", given.x), fed("y", given.y)}));
  const Floats after = as<float>(must(executor.get("fc1.w")));
  size_t moved = 0;
  for (size_t i = 0; i < before.size(); ++i) moved += before[i] != after[i];
  CHECK(moved > before.size() / 2);
  // What is set is the master's to the bit.
  must(executor.set("fc1.w", bytes_of(before)));
  CHECK(as<float>(must(executor.get("fc1.w"))) == before);
}

TEST_CASE("precision: a model of halves has masters, too") {
  Runtime runtime = tenon::test::open();
  Device device = tenon::test::target(runtime);
  const TrainingGraph step =
      must(training_graph(regression(rows, bf16), "loss", {.optimizer = {.op = Op::momentum, .rate = 1e-4}}));
  CHECK(step.masters.size() == 2);
  auto opened = Executor::open(step, device);
  SKIP_IF_UNSUPPORTED(opened, "halves");
  Executor executor = must(std::move(opened));
  must(begin(executor, 4));
  const std::vector<std::byte> x(rows * width * 2, std::byte{0x3c}), y(rows * 2, std::byte{0x3f});
  const Floats before = as<float>(must(executor.get("w.master")));
  for (int i = 0; i < 3; ++i) must(executor.run({fed("x", x), fed("y", y)}));
  CHECK(as<float>(must(executor.get("w.master"))) != before);
}
