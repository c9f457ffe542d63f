// SPDX-License-Identifier: Apache-2.0
// Whole steps in sharded mode: weights, states and counters have the bits of the plain mode, wherever shards end and whatever the
// optimizer, precision and batches; each rank has its part of the states only; checkpoints are those of the plain mode.
#include "integration/train/ranks.hpp"
#include "support/runtime_options.hpp"
#include "support/skip.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>

namespace {

using namespace train_test;
using overlap_test::crowds;
using overlap_test::open_cpu;

struct Course {
  Way way{};
  Optimizer optimizer{.op = Op::adam, .rate = 0.02};
  int64_t hidden = 5;
  std::optional<LossScaling> scaling{};
  std::vector<int64_t> steps = std::vector<int64_t>(9, batch);
};

Course named(std::string name) { return {.way = {.name = std::move(name)}}; }

Result<TrainingGraph> step_for(const Course& course, uint32_t ranks, int64_t rows, int64_t full) {
  TrainingOptions options = course.way.strategy.training();
  options.optimizer = course.optimizer;
  options.clip_norm = course.way.clip_norm;
  if (course.scaling) options.scaling = course.scaling;
  options.ranks = ranks;
  options.samples = static_cast<uint64_t>(rows);
  options.full_batch = static_cast<uint64_t>(full);
  return training_graph(network(rows, course.hidden), "loss", options);
}

Status take_steps(Executor& executor, Rank& r, const Course& course, size_t first, size_t end) {
  const int64_t full = batch / r.size;
  int64_t known = full;
  for (size_t i = first; i < end; ++i) {
    Samples given = part(r, i, course.steps[i]);
    const auto rows = static_cast<int64_t>(given.y.size());
    if (rows > 0 && rows < known) TN_TRY(executor.also(TN_TRY(step_for(course, r.size, known = rows, full))));
    if (course.scaling && i == 4 && r.rank == r.size - 1 && rows > 0)
      given.x[0] = std::numeric_limits<float>::infinity();  // a bad step
    float loss = -1;
    const bool told = TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}, {fetched("loss", loss)}));
    TN_TRY(expect(told == (rows > 0), "a loss where there are samples"));
  }
  return {};
}

// Every rank's parameters and states in the end, as sums in one order have them.
std::vector<Everything> taught(const Device& device, uint32_t size, Course course, bool sharded) {
  course.way.strategy.sharded = sharded;
  return everyones(device, size,
                   [&](Rank& r) -> Result<Everything> {
                     const int64_t full = batch / size;
                     Executor executor =
                         TN_TRY(open(r, course.way, TN_TRY(step_for(course, size, full, full))));
                     TN_TRY(begin(executor, 1 + r.rank));  // other numbers on each
                     TN_TRY(executor.share());
                     TN_TRY(take_steps(executor, r, course, 0, course.steps.size()));
                     return everything(executor);
                   },
                   {.deterministic = true});
}

std::vector<Course> courses() {
  std::vector<Course> out{named("as it is")};
  for (const Op op : {Op::sgd, Op::momentum, Op::adamw}) {
    Course& course = out.emplace_back(named(std::string(tenon::name(op))));
    course.optimizer = {.op = op, .rate = 0.02, .attributes = {{"weight_decay", 0.1}}, .no_decay = {"*.b"}};
    course.way.strategy.uneven_batches = op == Op::momentum;
  }
  Course many = named("a bucket for each gradient, three streams, large");
  many.way.strategy.bucket_mode = BucketRule::per_tensor;
  many.way.strategy.nccl_comm_num = 3;
  many.hidden = 20'000;
  out.push_back(many);
  Course apart = named("nothing fused, nothing in place");
  apart.way.strategy.enable_auto_fusion = apart.way.strategy.fuse_all_optimizer_ops = false;
  apart.way.strategy.enable_inplace = false;
  out.push_back(apart);
  Course launched = named("launched one by one, the host waiting for each bucket");
  launched.way.strategy.capture = false;
  launched.way.strategy.sync_nccl_allreduce = true;
  out.push_back(launched);
  Course scaled = named("loss scaling, and a bad step");
  scaled.scaling = LossScaling{.init = 16, .decr_every_n_nan_or_inf = 1};
  out.push_back(scaled);
  Course uneven = named("uneven batches");
  uneven.steps = {8, 3, 8, 8, 1, 8, 7, 8, 3};
  out.push_back(uneven);
  Course bad = named("loss scaling and uneven batches");
  bad.scaling = scaled.scaling;
  bad.steps = {8, 3, 8, 8, 8, 3, 3, 8};
  out.push_back(bad);
  for (const Way& way : ways_in_halves()) out.push_back({.way = way});
  return out;
}

}  // namespace

TEST_CASE("sharded: weights, states and counters have the bits of the plain mode") {
  const Device device = open_cpu();
  for (const Course& course : courses()) {
    for (const uint32_t size : crowds()) {
      CAPTURE(course.way.name);
      CAPTURE(size);
      const std::vector<Everything> found = taught(device, size, course, true);
      CHECK(!found[0].empty());
      CHECK(found == taught(device, size, course, false));
    }
  }
}

TEST_CASE(
    "sharded: clipped by the norm of all gradients, weights are those of the plain mode but for the order of "
    "a sum") {
  const Device device = open_cpu();
  for (const bool scales : {false, true}) {
    for (const uint32_t size : {2u, 4u}) {
      CAPTURE(scales);
      CAPTURE(size);
      Course course = named("clipped");
      course.way.clip_norm = 0.2;
      if (scales) course.scaling = LossScaling{.init = 16, .decr_every_n_nan_or_inf = 1};
      const std::vector<Everything> found = taught(device, size, course, true);
      for (const Everything& other : found) CHECK(other == found[0]);
      check_weights(taught(device, size, course, false)[0], found);
      Course free = course;
      free.way.clip_norm = 0;
      CHECK(taught(device, size, free, true)[0] != found[0]);
    }
  }
}

namespace {

// Fewer numbers than ranks; one of them has no dims.
Graph small(int64_t rows) {
  Graph g("small");
  const auto x = g.input("x", {f32, {rows, 1}}), y = g.input("y", {f32, {rows, 1}});
  const auto out = g.add(g.mul(x, g.param("w", {f32, {1}})), g.param("b", {f32, {}}));
  g.output("loss", g.mean(g.square(g.sub(out, y)), {0, 1}));
  return g;
}

}  // namespace

TEST_CASE("sharded: a rank with nothing to update takes part in what all have to know") {
  for (const double clip_norm : {0.0, 0.1}) {
    for (const bool scales : {false, true}) {
      const auto run = [&](bool sharded) {
        return everyones(open_cpu(), 4,
                         [&](Rank& r) -> Result<Everything> {
                           TrainingOptions options{.clip_norm = clip_norm, .ranks = 4};
                           if (scales) options.scaling = LossScaling{.init = 16};
                           options.optimizer = {.op = Op::adam, .rate = 0.1};
                           Strategy strategy;
                           strategy.sharded = sharded;
                           Executor executor = TN_TRY(open(
                               r, {.strategy = strategy}, TN_TRY(training_graph(small(2), "loss", options))));
                           TN_TRY(executor.initialize(1));
                           for (uint64_t i = 0; i < 6; ++i) {
                             const Samples given = samples(2, 4 * i + r.rank);
                             const Floats x{given.x[0], given.x[1]};
                             TN_TRY(executor.run({fed("x", x), fed("y", given.y)}));
                           }
                           return everything(executor);
                         },
                         {.deterministic = true});
      };
      const std::vector<Everything> found = run(true), plain = run(false);
      REQUIRE(!found[0].empty());
      for (const Everything& other : found) CHECK(other == found[0]);
      for (const auto& [name, bytes] : plain[0]) {
        if (clip_norm == 0) CHECK(found[0].at(name) == bytes);
        CHECK(as<float>(found[0].at(name))[0] == doctest::Approx(as<float>(bytes)[0]).epsilon(1e-5));
      }
    }
  }
}

namespace {

// Numbers of which bf16 has the upper halves.
std::vector<uint16_t> in_bf16(const Floats& numbers) {
  std::vector<uint16_t> out;
  for (const float x : numbers) out.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16));
  return out;
}

}  // namespace

TEST_CASE("sharded: a model's own halves have masters in pieces, and what is not trained stays as it is") {
  std::vector<Everything> found[2];
  for (const bool sharded : {false, true}) {
    found[sharded ? 1 : 0] = everyones(open_cpu(), 3,
                                       [&](Rank& r) -> Result<Everything> {
                                         Strategy strategy;
                                         strategy.sharded = sharded;
                                         strategy.stop_gradient = {"b"};
                                         TrainingOptions options = strategy.training();
                                         options.optimizer = {.op = Op::adamw, .rate = 0.05};
                                         options.ranks = r.size;
                                         const TrainingGraph step =
                                             TN_TRY(training_graph(regression(4, bf16), "loss", options));
                                         Executor executor = TN_TRY(open(r, {.strategy = strategy}, step));
                                         TN_TRY(executor.initialize(1 + r.rank));
                                         TN_TRY(executor.share());
                                         for (uint64_t i = 0; i < 5; ++i) {
                                           const Samples given = samples(4, r.size * i + r.rank);
                                           const auto x = in_bf16(given.x), y = in_bf16(given.y);
                                           TN_TRY(executor.run({fed("x", x), fed("y", y)}));
                                         }
                                         return everything(executor);
                                       },
                                       {.deterministic = true});
  }
  REQUIRE(found[1][0].contains("w.master"));
  CHECK(!found[1][0].contains("b.m"));
  CHECK(found[1] == found[0]);
}

TEST_CASE("sharded: on a device that runs nothing before somebody demands it, bits are the same") {
  auto runtime = comm_test::runtime({{"sim.profile", "plain"}});
  REQUIRE_MESSAGE(runtime.ok(), runtime.message());
  const auto device = runtime->device("sim");
  REQUIRE_MESSAGE(device.ok(), device.message());
  for (const bool captured : {true, false}) {
    for (const bool scales : {false, true}) {
      Course course = named("simulated");
      course.way.strategy.bucket_mode = BucketRule::per_tensor;
      course.way.strategy.nccl_comm_num = 2;
      course.way.strategy.capture = captured;
      if (scales) course.scaling = LossScaling{.init = 16, .decr_every_n_nan_or_inf = 1};
      const std::vector<Everything> found = taught(*device, 2, course, true);
      CHECK(!found[0].empty());
      CHECK(found == taught(*device, 2, course, false));
    }
  }
}

namespace {

// Images that lie channels last on their way, filters that do not, and what a model has renewed by its samples.
Graph convolutions(int64_t rows) {
  Graph g("convolutions");
  const auto x = g.input("x", {f32, {rows, 3, 6, 6}}), y = g.input("y", {f32, {rows}});
  const Graph::Attributes same{{"pad", std::vector<int64_t>{1, 1, 1, 1}}};
  const TensorSpec channel{f32, {4}};
  const auto a = g.conv2d(x, g.param("conv1.w", {f32, {4, 3, 3, 3}}), same);
  const auto [b, mean, inv_std, new_mean, new_var] =
      g.named({"bn", "", "", "new_mean", "new_var"})
          .batch_norm_train(a, g.param("scale", channel), g.param("bias", channel),
                            g.param("running_mean", channel), g.param("running_var", channel));
  g.output("new_mean", new_mean);
  g.output("new_var", new_var);
  const auto c = g.conv2d(g.relu(b), g.param("conv2.w", {f32, {4, 4, 3, 3}}), same);
  g.output("loss", g.mean(g.square(g.sub(g.mean(g.cast(c, f32), {1, 2, 3}), y)), {0}));
  return g;
}

Result<Everything> taught_on_images(Rank& r, const Strategy& strategy) {
  constexpr int64_t rows = 4;
  TrainingOptions options = strategy.training();
  options.optimizer = {.op = Op::momentum, .rate = 0.1};
  options.renewed = {{"running_mean", "new_mean"}, {"running_var", "new_var"}};
  options.ranks = r.size;
  Executor executor =
      TN_TRY(open(r, {.strategy = strategy}, TN_TRY(training_graph(convolutions(rows), "loss", options))));
  TN_TRY(executor.initialize(3));
  for (uint64_t i = 0; i < 7; ++i) {
    std::mt19937_64 random(r.size * i + r.rank);
    std::normal_distribution<float> any(1, 1);
    Floats x(rows * 3 * 6 * 6), y(rows);
    for (float& one : x) one = any(random);
    for (float& one : y) one = any(random);
    if (i == 3 && r.rank == 0) x[5] = std::numeric_limits<float>::infinity();  // with loss scaling a bad step
    if (i == 3 && options.scaling == std::nullopt) x[5] = 0;
    TN_TRY(executor.run({fed("x", x), fed("y", y)}));
  }
  return everything(executor);
}

}  // namespace

TEST_CASE(
    "sharded: convolutions, batch norm over all ranks and what a bad step must not renew have the same "
    "bits") {
  Device device = open_cpu();
  if (!plan(convolutions(4), device).ok())
    TENON_SKIP("convolutions", "this build of the CPU plugin has none of f32");
  std::vector<Way> all{{"nchw"}, {"nhwc"}, {"over all ranks"}};
  all[0].strategy.layout = "nchw";
  all[1].strategy.layout = "nhwc";
  all[2].strategy.sync_batch_norm = true;
  std::ranges::move(ways_in_halves(), std::back_inserter(all));
  for (Way& way : all) {
    CAPTURE(way.name);
    std::vector<Everything> found[2];
    if (way.strategy.amp_level == passes::AmpLevel::O1)
      way.strategy.custom_black_list = {"all_reduce"};  // as sharded mode sums gradients of weights in f32
    for (const bool sharded : {false, true}) {
      way.strategy.sharded = sharded;
      found[sharded ? 1 : 0] = everyones(
          device, 2, [&](Rank& r) { return taught_on_images(r, way.strategy); }, {.deterministic = true});
    }
    REQUIRE(!found[0][0].empty());
    CHECK(found[1] == found[0]);
  }
}

TEST_CASE("sharded: a checkpoint of all ranks goes on in either mode, with the bits it would have had") {
  for (const Way& halves : {Way{"f32"}, ways_in_halves().back()}) {
    Course course{.way = halves};
    course.way.strategy.sharded = true;
    CAPTURE(course.way.name);
    const std::vector<Everything> undisturbed = taught(open_cpu(), 2, course, true);
    const tenon::test::TempFolder home;
    const std::string file = home.path() + "/saved.safetensors";
    const auto rest = [&](bool sharded, size_t first, size_t end) {
      Course other = course;
      other.way.strategy.sharded = sharded;
      return everyones(
          open_cpu(), 2,
          [&](Rank& r) -> Result<Everything> {
            Executor executor = TN_TRY(open(r, other.way, TN_TRY(step_for(other, 2, batch / 2, batch / 2))));
            if (first == 0) {
              TN_TRY(begin(executor, 1 + r.rank));
              TN_TRY(executor.share());
            } else if (r.rank == 0) {
              TN_TRY(executor.restore(TN_TRY(Checkpoint::read(file))));  // the others have them from it
              TN_TRY(executor.share());
            } else {
              TN_TRY(executor.share());
            }
            TN_TRY(take_steps(executor, r, other, first, end));
            if (sharded || r.rank == 0) TN_TRY(executor.save(file));
            return everything(executor);
          },
          {.deterministic = true});
    };
    for (const bool first : {true, false}) {
      for (const bool then : {true, false}) {
        CAPTURE(first);
        CAPTURE(then);
        std::filesystem::remove(file);
        CHECK(!rest(first, 0, 4)[0].empty());
        REQUIRE(std::filesystem::exists(file));
        CHECK(rest(then, 4, course.steps.size()) == undisturbed);
      }
    }
  }
}

TEST_CASE("sharded: each rank has its part of the states, and says what it updates") {
  Course course = named("large");
  course.hidden = 20'000;
  ExecutorFigures plain, own;
  for (const bool sharded : {false, true}) {
    course.way.strategy.sharded = sharded;
    together(4, [&](Rank& r) -> Status {
      const int64_t full = batch / 4;
      Executor executor = TN_TRY(open(r, course.way, TN_TRY(step_for(course, 4, full, full))));
      if (r.rank == 0) (sharded ? own : plain) = executor.figures();
      const std::string text = executor.explain();
      return expect((text.find("updates  of ") != std::string::npos) == sharded, text);
    });
  }
  const auto weights = static_cast<double>((width + 2) * course.hidden * 4);
  CHECK(static_cast<double>(plain.lasting_bytes) == doctest::Approx(3 * weights).epsilon(0.02));
  CHECK(static_cast<double>(own.lasting_bytes) == doctest::Approx(1.5 * weights).epsilon(0.02));
  CHECK(own.gradients == plain.gradients);
}

TEST_CASE("sharded: a bad step names the first bad gradient, and what is fetched comes from either half") {
  std::mutex mutex;
  std::vector<std::string> lines;
  RuntimeOptions listening = tenon::test::built_plugins({{"cpu.threads", "1"}});
  listening.log = [&](LogLevel level, std::string_view, std::string_view text) {
    const std::lock_guard lock(mutex);
    if (level == LogLevel::warn && text.find("changed no weight") != std::string_view::npos)
      lines.emplace_back(text);
  };
  auto runtime = Runtime::open(listening);
  REQUIRE_MESSAGE(runtime.ok(), runtime.message());
  const auto device = runtime->device("cpu");
  REQUIRE_MESSAGE(device.ok(), device.message());
  together(*device, 2, [&](Rank& r) -> Status {
    Course course = named("bad");
    course.way.strategy.sharded = true;
    course.scaling = LossScaling{.init = 16, .decr_every_n_nan_or_inf = 1};
    Executor executor = TN_TRY(open(r, course.way, TN_TRY(step_for(course, 2, batch / 2, batch / 2))));
    TN_TRY(begin(executor, 1));
    for (uint64_t i = 0; i < 3; ++i) {
      Samples given = part(r, i);
      if (i == 1 && r.rank == 1) given.x[0] = std::nanf("");
      const Everything before = TN_TRY(everything(executor));
      float loss = 0, found_inf = -1, scale = 0;
      TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)},
                          {fetched("loss", loss), fetched("training.found_inf.now", found_inf),
                           fetched("training.scale.now", scale)}));
      TN_TRY(
          expect(found_inf == (i == 1 ? 1.0f : 0.0f) && scale == (i == 2 ? 8.0f : 16.0f), "what is fetched"));
      const Everything behind = TN_TRY(everything(executor));
      for (const char* name : {"fc1.w", "fc1.w.m", "fc2.b", "fc2.b.v", "training.step"})
        TN_TRY(expect((before.at(name) == behind.at(name)) == (i == 1), name));
    }
    return {};
  });
  std::ranges::sort(lines);
  REQUIRE(lines.size() == 2);  // a rank each
  CHECK(lines[0].starts_with("step 2 changed no weight: 'fc2.b' is the first of "));
  CHECK(lines[1] ==
        "step 2 changed no weight: every gradient of this rank is finite: another's, or their sum, is not");
}
