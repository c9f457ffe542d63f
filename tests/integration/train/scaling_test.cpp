// SPDX-License-Identifier: Apache-2.0
// Loss scaling is the machine that training.hpp tells, step by step, and a bad step changes nothing that lasts but the scale
// and its counters.
#include "integration/device.hpp"
#include "integration/train/model.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace train_test;
using tenon::test::must;

namespace {

constexpr int64_t rows = 4;

// The machine by hand.
struct Machine {
  LossScaling options;
  float scale = static_cast<float>(options.init);
  uint32_t good = 0, bad = 0;

  void step(bool is_bad) {
    if (!options.dynamic) return;
    if (is_bad) {
      good = 0;
      if (++bad == options.decr_every_n_nan_or_inf) {
        scale = std::max(1.0f, scale * static_cast<float>(options.decr_ratio));
        bad = 0;
      }
    } else {
      bad = 0;
      if (++good == options.incr_every_n_steps) {
        const float more = scale * static_cast<float>(options.incr_ratio);
        if (std::isfinite(more)) scale = more;
        good = 0;
      }
    }
  }
};

struct World {
  Runtime runtime = tenon::test::open();
  Device device = tenon::test::target(runtime);

  Executor open(const std::optional<LossScaling>& scaling, Op op = Op::adam, double clip_norm = 0) {
    const TrainingGraph step = must(training_graph(
        regression(rows), "loss", {.optimizer = {.op = op}, .scaling = scaling, .clip_norm = clip_norm}));
    Executor out = must(Executor::open(step, device));
    must(begin(out, 3));
    return out;
  }
};

void run(Executor& executor, bool is_bad, uint64_t seed = 1) {
  Samples given = samples(rows, seed);
  if (is_bad) given.x[5] = seed % 2 == 0 ? std::numeric_limits<float>::infinity() : std::nanf("");
  must(executor.run({fed("x", given.x), fed("y", given.y)}));
}

void follow(Executor& executor, Machine machine, std::initializer_list<int> bad_steps, int steps) {
  double skipped = 0;
  for (int i = 0; i < steps; ++i) {
    const bool is_bad = std::find(bad_steps.begin(), bad_steps.end(), i) != bad_steps.end();
    Everything before = must(everything(executor));
    run(executor, is_bad, static_cast<uint64_t>(i));
    machine.step(is_bad);
    CAPTURE(i);
    CHECK(must(executor.value("training.found_inf.now")) == (is_bad ? 1 : 0));
    CHECK(must(executor.value("training.scale")) == static_cast<double>(machine.scale));
    if (machine.options.dynamic) {
      CHECK(must(executor.value("training.good")) == machine.good);
      CHECK(must(executor.value("training.bad")) == machine.bad);
    }
    Everything after = must(everything(executor));
    skipped += is_bad ? 1 : 0;
    CHECK(must(executor.value("training.skipped")) == skipped);
    for (const char* of_scaling : {"training.scale", "training.good", "training.bad", "training.skipped"}) {
      before.erase(of_scaling);
      after.erase(of_scaling);
    }
    CHECK((before == after) == is_bad);
  }
}

}  // namespace

TEST_CASE("scaling: grows after good steps, shrinks after bad ones, and bad steps change nothing else") {
  World w;
  const LossScaling scaling{.init = 1024, .incr_every_n_steps = 3, .decr_every_n_nan_or_inf = 2};
  for (const Op op : {Op::sgd, Op::momentum, Op::adam, Op::adamw}) {
    Executor executor = w.open(scaling, op);
    follow(executor, {scaling}, {1, 3, 4, 9, 10, 11, 12}, 16);
  }
  Executor clipped = w.open(scaling, Op::adam, 0.1);
  follow(clipped, {scaling}, {2, 3}, 6);
}

TEST_CASE("scaling: where gradients are clipped and no loss is scaled a bad step changes nothing either") {
  World w;
  for (const Op op : {Op::sgd, Op::momentum, Op::adam}) {
    Executor executor = w.open(std::nullopt, op, 0.1);
    for (int i = 0; i < 5; ++i) {
      CAPTURE(i);
      const bool is_bad = i == 1 || i == 2;
      Everything before = must(everything(executor));
      run(executor, is_bad, static_cast<uint64_t>(i));
      Everything after = must(everything(executor));
      CHECK(must(executor.value("training.found_inf.now")) == (is_bad ? 1 : 0));
      CHECK(must(executor.value("training.skipped")) == std::clamp(i, 0, 2));
      for (Everything* all : {&before, &after}) all->erase("training.skipped");
      CHECK((before == after) == is_bad);
    }
  }
}

TEST_CASE("scaling: a bad step changes no master, nor the halves that are made of it") {
  World w;
  Strategy strategy;
  strategy.amp = true;
  strategy.amp_level = passes::AmpLevel::O2;
  strategy.amp_dtype = f16;
  strategy.custom_white_list = {"mul"};  // the network's products
  strategy.incr_every_n_steps = 3;
  strategy.init_loss_scaling = 256;
  strategy.decr_every_n_nan_or_inf = 2;
  TrainingOptions options = strategy.training();
  options.optimizer = {.op = Op::adam};
  auto opened = Executor::open(must(training_graph(network(rows), "loss", options)), w.device, strategy);
  SKIP_IF_UNSUPPORTED(opened, "halves");
  Executor executor = must(std::move(opened));
  must(begin(executor, 3));
  REQUIRE(options.scaling.has_value());
  follow(executor, {*options.scaling}, {1, 3, 4, 9, 10}, 13);
}

TEST_CASE("scaling: never below 1, never to infinity") {
  World w;
  const LossScaling low{.init = 2, .decr_every_n_nan_or_inf = 1, .decr_ratio = 0.25};
  Executor falling = w.open(low);
  follow(falling, {low}, {0, 1, 2}, 3);
  CHECK(must(falling.value("training.scale")) == 1);
  const LossScaling high{.init = 1e30, .incr_every_n_steps = 1, .incr_ratio = 1e6};
  Executor rising = w.open(high, Op::sgd);
  // Gradients of that size may overflow: only the scale is looked at, which stays a number.
  for (uint64_t i = 0; i < 4; ++i) run(rising, false, i);
  CHECK(std::isfinite(must(rising.value("training.scale"))));
}

TEST_CASE("scaling: a scale that stays, and the same weights as without one") {
  World w;
  const LossScaling fixed{.dynamic = false, .init = 256};
  Executor executor = w.open(fixed, Op::sgd);
  follow(executor, {fixed}, {1}, 3);
  Executor scaled = w.open(LossScaling{.init = 65536}, Op::adam);
  Executor plain = must(Executor::open(
      must(training_graph(regression(rows), "loss", {.optimizer = {.op = Op::adam}})), w.device));
  must(begin(plain, 3));
  for (uint64_t i = 0; i < 5; ++i) {
    run(scaled, false, i);
    run(plain, false, i);
  }
  const Floats a = as<float>(must(scaled.get("w"))), b = as<float>(must(plain.get("w")));
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-5));
}

TEST_CASE("scaling: what the model renews is kept from a bad step, too") {
  World w;
  Graph g("running");
  const auto x = g.input("x", {f32, {rows, 1}}), scale = g.param("scale", {f32, {1}});
  g.param("mean", {f32, {1}});
  g.output("loss", g.mean(g.square(g.mul(x, scale)), {0, 1}));
  g.output("mean.next", g.mean(x, {0}));
  const TrainingGraph step = must(
      training_graph(g, "loss", {.scaling = LossScaling{.init = 8}, .renewed = {{"mean", "mean.next"}}}));
  Executor executor = must(Executor::open(step, w.device));
  must(begin(executor, 1));
  Floats numbers(rows, 1.0f);
  must(executor.run({fed("x", numbers)}));
  CHECK(must(executor.value("mean")) == 1);
  numbers[2] = std::nanf("");
  must(executor.run({fed("x", numbers)}));
  CHECK(must(executor.value("mean")) == 1);
}

namespace {

// A world that keeps what is logged of bad steps.
struct Listening {
  std::vector<std::string> lines{};
  Runtime runtime = tenon::test::open({}, [this](LogLevel level, std::string_view, std::string_view text) {
    if (level == LogLevel::warn && text.find("changed no weight") != std::string_view::npos)
      lines.emplace_back(text);
  });
  Device device = tenon::test::target(runtime);
};

}  // namespace

TEST_CASE("scaling: bad steps that nobody fetched are counted, and told by the next fetch") {
  Listening w;
  const TrainingGraph step = must(training_graph(
      network(rows), "loss", {.scaling = LossScaling{.init = 64, .decr_every_n_nan_or_inf = 1}}));
  Strategy strategy;
  strategy.fetch_every = 5;
  const auto open = [&] {
    Executor out = must(Executor::open(step, w.device, strategy));
    must(begin(out, 5));
    return out;
  };
  const auto run_until = [&](Executor& executor, uint64_t end, std::initializer_list<uint64_t> bad_steps) {
    w.lines.clear();
    while (executor.steps() < end) {
      Samples given = samples(rows, executor.steps());
      if (std::ranges::count(bad_steps, executor.steps() + 1) > 0) given.x[0] = std::nanf("");
      float loss = 0;
      must(executor.run({fed("x", given.x), fed("y", given.y)}, {fetched("loss", loss)}));
    }
  };
  Executor executor = open();
  run_until(executor, 5, {2, 3});
  REQUIRE(w.lines.size() == 1);
  CHECK_HAS(w.lines[0], "2 steps since step 0 changed no weight: with fetch_every = 1");
  run_until(executor, 10, {});
  CHECK(w.lines.empty());
  run_until(executor, 15, {12, 15});  // the last one is fetched, and named
  REQUIRE(w.lines.size() == 2);
  CHECK_HAS(w.lines[0], "1 step since step 10 changed no weight");
  CHECK_HAS(w.lines[1], "step 15 changed no weight: 'fc");

  // Those before a checkpoint are not told again.
  const tenon::test::TempFolder home;
  const std::string path = home.path() + "/one.safetensors";
  must(executor.save(path));
  Executor resumed = open();
  must(resumed.restore(must(Checkpoint::read(path))));
  CHECK(must(resumed.value("training.skipped")) == 4);
  run_until(resumed, 20, {17});
  REQUIRE(w.lines.size() == 1);
  CHECK_HAS(w.lines[0], "1 step since step 15 changed no weight");
}

TEST_CASE(
    "scaling: a bad step that is fetched is told in one line, with the first gradient that is not finite") {
  Listening w;
  std::vector<std::string>& lines = w.lines;
  for (const bool is_large : {false, true}) {
    const TrainingGraph step = must(
        training_graph(network(rows), "loss",
                       {.scaling = LossScaling{.init = is_large ? 1e30 : 8, .decr_every_n_nan_or_inf = 1}}));
    Executor executor = must(Executor::open(step, w.device));
    must(begin(executor, 5));
    lines.clear();
    float loss = 0;
    const uint64_t good_steps = is_large ? 0 : 6;
    for (uint64_t i = 0; i < good_steps; ++i) {
      const Samples good = samples(rows, 10 + i);
      must(executor.run({fed("x", good.x), fed("y", good.y)}, {fetched("loss", loss)}));
    }
    CHECK(lines.empty());
    Samples given = samples(rows, 1);
    for (float& y : given.y) y = is_large ? 1e10f : y;
    // What is no number is in every gradient; large ones overflow first where backward begins.
    if (!is_large) given.x[0] = std::nanf("");
    const double scale = must(executor.value("training.scale"));
    must(executor.run({fed("x", given.x), fed("y", given.y)}, {fetched("loss", loss)}));
    REQUIRE(lines.size() == 1);
    CHECK_HAS(lines[0], "step " + std::to_string(good_steps + 1) + " changed no weight: 'fc2.");
    CHECK_HAS(lines[0], "gradients that are not finite");
    CHECK(must(executor.value("training.scale")) == scale / 2);
    given = samples(rows, 2);
    if (!is_large) must(executor.run({fed("x", given.x), fed("y", given.y)}, {fetched("loss", loss)}));
    CHECK(lines.size() == 1);
  }
}
