// SPDX-License-Identifier: Apache-2.0
// An executor runs steps as it is told: inputs, fetches, several steps of one call, places that take turns; and refuses,
// before anything runs, what cannot be.
#include "integration/device.hpp"
#include "integration/train/model.hpp"
#include "plan/state.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

using namespace train_test;
using tenon::test::must;

namespace {

constexpr int64_t rows = 4;

struct World {
  Runtime runtime = tenon::test::open();
  Device device = tenon::test::target(runtime);

  Executor open(const Strategy& strategy = {},
                const TrainingOptions& options = {.optimizer = {.op = Op::momentum}}) {
    Executor out =
        must(Executor::open(must(training_graph(network(rows), "loss", options)), device, strategy));
    must(begin(out, 7));
    return out;
  }
};

float train(Executor& executor, uint64_t steps) {
  float loss = 0;
  for (uint64_t i = 0; i < steps; ++i) {
    const Samples given = samples(rows, i);
    must(executor.run({fed("x", given.x), fed("y", given.y)}, {fetched("loss", loss)}));
  }
  return loss;
}

}  // namespace

TEST_CASE("executor: learns, and the same in whatever way it is cut or laid out") {
  World w;
  Executor plain = w.open();
  const float first = train(plain, 1), last = train(plain, 40);
  CHECK(last < first / 2);
  CHECK(plain.steps() == 41);
  Strategy alone;
  alone.enable_auto_fusion = alone.fuse_all_optimizer_ops = alone.fuse_patterns = false;
  Strategy apart;
  apart.enable_inplace = false;
  for (const Strategy& strategy : {alone, apart}) {
    Executor other = w.open(strategy);
    train(other, 1);
    CHECK(train(other, 40) == doctest::Approx(last).epsilon(1e-4));
    if (!strategy.enable_inplace) {
      CHECK(other.figures().in_turns == 8);
      CHECK(other.figures().in_place == 0);
    }
  }
}

TEST_CASE("executor: what was set is got, and states begin at nothing") {
  World w;
  Executor executor = w.open();
  const Floats bias(5, 1.5f);
  must(executor.set("fc1.b", bytes_of(bias)));
  CHECK(as<float>(must(executor.get("fc1.b"))) == bias);
  CHECK(as<float>(must(executor.get("fc2.w.velocity"))) == Floats(5));
  CHECK(must(executor.value("training.rate")) == doctest::Approx(0.01));
  must(executor.set_rate(0));
  train(executor, 2);
  CHECK(as<float>(must(executor.get("fc1.b"))) == bias);
  CHECK(as<float>(must(executor.get("fc2.w.velocity"))) != Floats(5));
}

TEST_CASE("executor: outputs are fetched every so often") {
  World w;
  Strategy strategy;
  strategy.fetch_every = 3;
  Executor executor = w.open(strategy);
  const Samples given = samples(rows, 1);
  Floats guess(rows);
  for (int i = 1; i <= 7; ++i) {
    std::fill(guess.begin(), guess.end(), -77.0f);
    const bool fetches =
        must(executor.run({fed("x", given.x), fed("y", given.y)}, {fetched("guess", guess)}));
    CHECK(fetches == (i % 3 == 0));
    CHECK((guess[0] == -77.0f) == !fetches);
  }
  CHECK(!must(executor.run({fed("x", given.x), fed("y", given.y)})));
}

TEST_CASE("executor: every so often the pool gives back what nobody uses") {
  World w;
  Strategy strategy;
  strategy.num_iteration_per_drop_scope = 3;
  Executor executor = w.open(strategy);
  const uint64_t before = w.device.pool_stats().trims;
  train(executor, 8);
  CHECK(w.device.pool_stats().trims == before + 2);
}

TEST_CASE("executor: several steps of one call, until there is nothing left") {
  World w;
  Strategy strategy;
  strategy.num_iteration_per_run = 3;
  Executor one = w.open(), several = w.open(strategy);
  const float expected = train(one, 5);
  uint64_t next = 0;
  Samples given;
  const auto feed = [&](std::vector<Binding>& inputs) -> Result<bool> {
    if (next == 5) return false;
    given = samples(rows, next++);
    inputs = {fed("x", given.x), fed("y", given.y)};
    return true;
  };
  float loss = 0;
  const Binding fetch = fetched("loss", loss);
  CHECK(must(several.run(feed, {&fetch, 1})) == 3);
  CHECK(must(several.run(feed, {&fetch, 1})) == 2);
  CHECK(loss == expected);
  CHECK(must(several.run(feed, {&fetch, 1})) == 0);
  CHECK(several.steps() == 5);
}

TEST_CASE("executor: inputs may be on the device already") {
  World w;
  Executor host = w.open(), device = w.open();
  const Samples given = samples(rows, 0);
  const Buffer x = must(w.device.allocate(device.stream(), given.x.size() * sizeof(float)));
  must(device.stream().upload(x, given.x));
  float a = 0, b = 0;
  for (int i = 0; i < 3; ++i) {
    must(host.run({fed("x", given.x), fed("y", given.y)}, {fetched("loss", a)}));
    must(device.run({Binding{"x", x}, fed("y", given.y)}, {fetched("loss", b)}));
  }
  CHECK(a == b);
}

// A step that waited for the device would never return: the device goes on only when they all have.
TEST_CASE("executor: steps without fetches are enqueued, whatever the device is at") {
  World w;
  for (const std::string& what : w.device.emulated())
    if (what.find("host call") != std::string::npos)
      TENON_SKIP("host_call", w.device.name() + " has none, so its streams cannot be held");
  Strategy strategy;
  strategy.fetch_every = 4;
  Executor executor = w.open(strategy);
  const Samples given = samples(rows, 0);
  const Buffer x = must(w.device.allocate(executor.stream(), given.x.size() * sizeof(float))),
               y = must(w.device.allocate(executor.stream(), given.y.size() * sizeof(float)));
  must(executor.stream().upload(x, given.x));
  must(executor.stream().upload(y, given.y));
  must(executor.sync());
  std::atomic<bool> open{false};
  must(executor.stream().host_call([&] { open.wait(false); }));
  float loss = -1;
  for (int i = 1; i < 4; ++i)
    CHECK(!must(executor.run({Binding{"x", x}, Binding{"y", y}}, {fetched("loss", loss)})));
  open = true;
  open.notify_all();
  CHECK(must(executor.run({Binding{"x", x}, Binding{"y", y}}, {fetched("loss", loss)})));
  CHECK(loss >= 0);
}

TEST_CASE("executor: steps that are captured give the bits of those that are launched") {
  World w;
  Strategy by_hand;
  by_hand.capture = false;
  for (const bool in_place : {true, false}) {
    Strategy captured;
    captured.enable_inplace = by_hand.enable_inplace =
        in_place;  // with two places, every second step is another
    Executor a = w.open(by_hand), b = w.open(captured);
    for (int i = 0; i < 4; ++i) {
      CHECK(train(a, 5) == train(b, 5));
      must(a.set_rate(0.02 / (i + 1)));
      must(b.set_rate(0.02 / (i + 1)));
    }
    CHECK(must(everything(a)) == must(everything(b)));
    CHECK(a.figures().replayed == 0);
    CHECK_HAS(a.explain(), "capture  none: capture = false");
    if (Capture::offered(w.device)) {
      CHECK(b.figures().replayed >= 12);
      CHECK(b.figures().stretches == 1);
      CHECK_HAS(b.explain(), "steps replayed so far");
    } else {
      CHECK(b.figures().replayed == 0);
      CHECK_HAS(b.explain(), "captures nothing");
    }
  }
}

TEST_CASE("executor: inputs that lie elsewhere in every step are found, captured or not") {
  World w;
  Executor host = w.open(), device = w.open();
  const Samples given = samples(rows, 3);
  std::vector<Buffer> places;
  float a = 0, b = 0;
  for (int i = 0; i < 30; ++i) {
    if (places.size() < 13)
      places.push_back(must(w.device.allocate(device.stream(), given.x.size() * sizeof(float))));
    const Buffer& x = places[static_cast<size_t>(i * 5) % places.size()];
    must(device.stream().upload(x, given.x));
    must(host.run({fed("x", given.x), fed("y", given.y)}, {fetched("loss", a)}));
    must(device.run({Binding{"x", x}, fed("y", given.y)}, {fetched("loss", b)}));
    CHECK(a == b);
    must(device.stream().fill(x, 0xFF));
  }
}

TEST_CASE("executor: capture = true where nothing captures is refused, with the way out") {
  World w;
  Strategy strategy;
  strategy.capture = true;
  const auto opened = Executor::open(must(training_graph(network(rows), "loss")), w.device, strategy);
  if (Capture::offered(w.device)) {
    CHECK(opened.ok());
    return;
  }
  CHECK(opened.code() == TN_UNSUPPORTED);
  CHECK_HAS(std::string(opened.message()), "leave it to auto");
}

TEST_CASE("executor: what the model itself renews goes on") {
  World w;
  Graph g("running");
  const auto x = g.input("x", {f32, {rows, 1}}), scale = g.param("scale", {f32, {1}});
  const auto mean = g.param("mean", {f32, {1}}), count = g.param("count", {i32, {1}});
  g.output("loss", g.mean(g.square(g.mul(x, scale)), {0, 1}));
  g.output("mean.next", g.add(g.scale(mean, 0.5), g.scale(g.mean(x, {0}), 0.5)));
  g.output("count.next", g.add(count, g.constant({i32, {1}}, 1)));
  const TrainingGraph step =
      must(training_graph(g, "loss", {.renewed = {{"mean", "mean.next"}, {"count", "count.next"}}}));
  CHECK(step.trained == std::vector<std::string>{"scale"});
  Executor executor = must(Executor::open(step, w.device));
  must(begin(executor, 1));
  const Floats ones(rows, 1.0f);
  for (int i = 0; i < 3; ++i) must(executor.run({fed("x", ones)}));
  CHECK(must(executor.value("mean")) == 0.875);
  CHECK(must(executor.value("count")) == 3);
}

TEST_CASE("executor: what cannot be is refused before anything runs") {
  World w;
  const TrainingGraph step = must(training_graph(network(rows), "loss"));
  Executor executor = must(Executor::open(step, w.device));
  const Samples given = samples(rows, 1);
  const Binding x = fed("x", given.x), y = fed("y", given.y);
  const auto refused = [&](std::initializer_list<Binding> inputs, const char* part) {
    const Result<bool> ran = executor.run(inputs);
    CHECK(ran.code() == TN_INVALID);
    CHECK_HAS(std::string(ran.message()), part);
  };
  refused({x, y}, "have no value: call initialize");
  must(begin(executor, 1));
  refused({x}, "input 'y' is not given");
  refused({x, y, y}, "input 'y' is given twice");
  refused({x, fed("yy", given.y)}, "the step has no input 'yy'");
  refused({x, fed("y", given.x)}, "has 16 bytes, it is given 96");
  float loss = 0;
  CHECK_HAS(std::string(executor.run({x, y}, {fetched("lost", loss)}).message()), "did you mean 'loss'");
  CHECK_HAS(std::string(executor.run({x, y}, {fetched("fc1.b", loss)}).message()), "which get() gives");
  CHECK_HAS(std::string(executor.run({x, y}, {fetched("guess", loss)}).message()),
            "it is to be written to 4");
  refused({x, {"y", Stream::host_span(nullptr, 16)}}, "input 'y' is at a NULL address for 16 bytes");
  refused({x, fed("y", std::vector<int32_t>(4))}, "input 'y' is f32, and its numbers here are i32");
  refused({x, fed("y", std::vector<double>(2))}, "input 'y' is f32, and its numbers here are f64");
  double wide = 0;
  CHECK_HAS(std::string(executor.run({x, y}, {fetched("loss", wide)}).message()),
            "output 'loss' is f32, and its numbers here are f64");
  CHECK_HAS(std::string(executor.run({x, y}, {{"loss", Stream::host_span(nullptr, 4)}}).message()),
            "output 'loss' is at a NULL address for 4 bytes");
  CHECK(executor.get("fc3.w").code() == TN_NOT_FOUND);
  CHECK_HAS(std::string(executor.set("fc1.b", bytes_of(given.x)).message()), "has 20 bytes, it is given 96");
  CHECK(executor.set_rate(-1).code() == TN_INVALID);
  CHECK_HAS(std::string(executor.value("fc1.b").message()), "has 5 elements, and no one value");
  CHECK(executor.steps() == 0);
  must(executor.run({x, y}));
  CHECK(executor.steps() == 1);
}

TEST_CASE("executor: other ranks than the step's") {
  World w;
  const TrainingGraph two = must(training_graph(network(rows), "loss", {.ranks = 2}));
  const auto alone = Executor::open(two, w.device);
  CHECK(alone.code() == TN_INVALID);
  CHECK_HAS(std::string(alone.message()), "the step is for 2 ranks, the communicator has 1");
}

TEST_CASE("executor: the memory that it tells of is what it takes") {
  World w;
  const uint64_t before = w.device.pool_stats().used_bytes;
  Executor executor = must(Executor::open(
      must(training_graph(network(rows, 1 << 14), "loss", {.optimizer = {.op = Op::adam}})), w.device));
  must(begin(executor, 7));
  train(executor, 3);
  const uint64_t told = executor.figures().peak_bytes(), taken = w.device.pool_stats().used_bytes - before;
  CAPTURE(told);
  CAPTURE(taken);
  CHECK(taken >= told);
  CHECK(taken <= told + told / 10);
}

TEST_CASE("executor: explains itself, and its figures add up") {
  World w;
  Executor executor = w.open();
  train(executor, 2);
  const ExecutorFigures f = executor.figures();
  CHECK(f.steps == 2);
  const auto& launches = executor.plan().state().launches;  // some are views, which launch nothing
  CHECK(launches.size() == executor.plan().cut().groups.size());
  CHECK(f.launches == static_cast<uint64_t>(std::count_if(launches.begin(), launches.end(),
                                                          [](const auto& one) { return bool(one.kernel); })));
  CHECK(f.nodes >= f.launches);
  CHECK(f.in_place + f.in_turns == 8);  // weights and velocities
  CHECK(f.peak_bytes() > f.lasting_bytes);
  CHECK(f.all_reduces == 0);
  const std::string text = executor.explain();
  CHECK(text.starts_with(executor.summary()));
  CHECK_HAS(text, "4 momentum operators, after fusion ");
  CHECK_HAS(text, " in " + std::to_string(f.launches) + " launches");
  CHECK_HAS(text, "renewed  " + std::to_string(f.in_place) + " parameters in place");
  CHECK_HAS(text, "memory   ");
}
