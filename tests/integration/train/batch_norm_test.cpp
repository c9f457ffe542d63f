// SPDX-License-Identifier: Apache-2.0
// Batch normalisation over all ranks: however many share a step's samples, weights and running statistics are those of one.
#include "integration/train/ranks.hpp"
#include "plan/state.hpp"

#include <doctest/doctest.h>

namespace {

using namespace train_test;

constexpr int64_t all_images = 8, image_channels = 3, image_edge = 4;
constexpr size_t image_elements = image_channels * image_edge * image_edge;

// Two normalisations, between them what makes a channel's own scale matter.
Graph image_network(int64_t rows, DType dtype = f32) {
  Graph g("images");
  const TensorSpec channel{f32, {image_channels}};
  auto h = g.input("x", {dtype, {rows, image_channels, image_edge, image_edge}});
  for (const std::string layer : {"one", "two"}) {
    const auto w = g.param(layer + ".w", {dtype, {1, image_channels, 1, 1}});
    const auto b = g.param(layer + ".b", {dtype, {1, image_channels, 1, 1}});
    h = g.named(layer + ".h").tanh(g.add(g.mul(h, w), b));
    const auto [y, mean, inv_std, new_mean, new_var] =
        g.named({layer, "", "", layer + ".new_mean", layer + ".new_var"})
            .batch_norm_train(h, g.param(layer + ".scale", channel), g.param(layer + ".bias", channel),
                              g.param(layer + ".running_mean", channel),
                              g.param(layer + ".running_var", channel));
    g.output(layer + ".new_mean", new_mean);
    g.output(layer + ".new_var", new_var);
    h = g.sigmoid(y);  // without kinks, which make much of a rounding
  }
  const auto guess = g.mean(g.cast(h, f32), {1, 2, 3});
  g.output("loss", g.named("loss").mean(g.square(g.sub(guess, g.input("y", {f32, {rows}}))), {0}));
  return g;
}

Samples some_images(uint32_t rank, int64_t rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> any(1.5f, 1);
  Floats x(all_images * image_elements), y(all_images);
  for (float& one : x) one = any(random);
  for (float& one : y) one = any(random);
  const auto first = static_cast<std::ptrdiff_t>(rank) * rows;
  const auto width_of_row = static_cast<std::ptrdiff_t>(image_elements);
  return {Floats(x.begin() + first * width_of_row, x.begin() + (first + rows) * width_of_row),
          Floats(y.begin() + first, y.begin() + first + rows)};
}

Result<Executor> open_images(Rank& r, const Strategy& strategy) {
  TrainingOptions options = strategy.training();
  options.optimizer = {.op = Op::momentum, .rate = 0.2};
  options.ranks = r.size;
  for (const std::string layer : {"one", "two"}) {
    options.renewed.push_back({layer + ".running_mean", layer + ".new_mean"});
    options.renewed.push_back({layer + ".running_var", layer + ".new_var"});
  }
  const TrainingGraph step = TN_TRY(training_graph(image_network(all_images / r.size), "loss", options));
  return Executor::open(step, r.device, strategy, r.size > 1 ? r.comm : Communicator(),
                        {.target = eager_target()});
}

// Every rank's parameters after some steps.
std::vector<Everything> trained_on_images(const Device& device, uint32_t size, const Strategy& strategy,
                                          uint64_t steps = 10) {
  return everyones(device, size, [&](Rank& r) -> Result<Everything> {
    Executor executor = TN_TRY(open_images(r, strategy));
    TN_TRY(begin(executor, 1));
    TN_TRY(executor.share());
    for (uint64_t i = 0; i < steps; ++i) {
      const Samples given = some_images(r.rank, all_images / r.size, i);
      TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
    }
    return everything(executor);
  });
}

// The farthest of the numbers of two runs, in parts of the greatest of their parameter.
double farthest(const Everything& a, const Everything& b) {
  double out = 0;
  for (const auto& [name, bytes] : a) {
    const Floats x = as<float>(bytes), y = as<float>(b.at(name));
    double greatest = 0.1, apart = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      greatest = std::max(greatest, static_cast<double>(std::abs(x[i])));
      apart = std::max(apart, static_cast<double>(std::abs(x[i] - y[i])));
    }
    out = std::max(out, apart / greatest);
  }
  return out;
}

Strategy over_all_ranks() {
  Strategy out;
  out.sync_batch_norm = true;
  return out;
}

}  // namespace

TEST_CASE("sync batch norm: 1 x 8, 2 x 4 and 4 x 2 samples give the same weights and running statistics") {
  const Device cpu = overlap_test::open_cpu();
  const Everything alone = trained_on_images(cpu, 1, over_all_ranks())[0];
  for (const uint32_t size : {2u, 4u}) {
    const std::vector<Everything> found = trained_on_images(cpu, size, over_all_ranks());
    for (const Everything& other : found) CHECK(other == found[0]);
    CHECK(farthest(alone, found[0]) < 1e-3);
    // What each rank normalises by itself is something else.
    CHECK(farthest(alone, trained_on_images(cpu, size, {})[0]) > 1e-2);
  }
}

TEST_CASE("sync batch norm: steps that are captured between sums give the bits of those that are launched") {
  Strategy strategy = over_all_ranks();
  const std::vector<Everything> captured = trained_on_images(overlap_test::open_cpu(), 2, strategy, 20);
  strategy.capture = false;
  CHECK(captured == trained_on_images(overlap_test::open_cpu(), 2, strategy, 20));
  CHECK(!captured[0].empty());
}

TEST_CASE("sync batch norm: nothing in place, each gradient alone, planned anew: the same numbers") {
  const Device cpu = overlap_test::open_cpu();
  Strategy strategy = over_all_ranks();
  const Everything usual = trained_on_images(cpu, 2, strategy)[0];
  strategy.enable_inplace = strategy.enable_auto_fusion = strategy.fuse_patterns = false;
  strategy.bucket_mode = BucketRule::per_tensor;
  strategy.warm_up_steps = 2;
  strategy.measure_every = 3;
  CHECK(farthest(usual, trained_on_images(cpu, 2, strategy)[0]) < 1e-3);
}

TEST_CASE("sync batch norm: in halves, statistics are summed in f32 and all ranks have the same bits") {
  for (const auto level : {passes::AmpLevel::O1, passes::AmpLevel::O2}) {
    Strategy strategy = over_all_ranks();
    strategy.amp = true;
    strategy.amp_level = level;
    strategy.custom_white_list = {"mul"};
    const std::vector<Everything> found = trained_on_images(overlap_test::open_cpu(), 2, strategy);
    CHECK(found[0] == found[1]);
    CHECK(!found[0].empty());
    overlap_test::together(2, [&](Rank& r) -> Status {
      const Executor executor = TN_TRY(open_images(r, strategy));
      TN_TRY(expect(executor.plan().state().sums.size() == 4, "two sums forward, two backward"));
      for (const auto& sum : executor.plan().state().sums)
        TN_TRY(expect(sum.dtype == f32, executor.explain()));
      const std::string text = executor.explain();
      return expect(text.find("4 sums over ranks inside the step") != std::string::npos, text);
    });
  }
}

TEST_CASE(
    "sync batch norm: what is not finite on one rank is told by its gradient, and harms no statistics") {
  Strategy strategy = over_all_ranks();
  strategy.amp = true;
  strategy.amp_dtype = f16;
  strategy.init_loss_scaling = 16;
  strategy.decr_every_n_nan_or_inf = 1;
  overlap_test::together(2, [&](Rank& r) -> Status {
    Executor executor = TN_TRY(open_images(r, strategy));
    TN_TRY(begin(executor, 1));
    TN_TRY(executor.share());
    Samples given = some_images(r.rank, all_images / r.size, 1);
    if (r.rank == 1) given.x[0] = std::nanf("");
    const Everything before = TN_TRY(everything(executor));
    float loss = 0;
    TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}, {fetched("loss", loss)}));
    TN_TRY(expect(TN_TRY(executor.value("training.found_inf.now")) == 1, "found_inf"));
    for (const char* name : {"one.w", "one.running_mean", "two.running_var"})
      TN_TRY(expect(before.at(name) == TN_TRY(executor.get(name)), name));
    return {};
  });
}

TEST_CASE("sync batch norm: a rank without samples has nothing for its sums, and is told") {
  together(2, [](Rank& r) -> Status {
    Executor executor = TN_TRY(open_images(r, over_all_ranks()));
    TN_TRY(begin(executor, 1));
    const Floats none;
    const auto ran = executor.run({fed("x", none), fed("y", none)});
    return expect(
        ran.code() == TN_UNSUPPORTED && ran.message().find("sync_batch_norm") != std::string_view::npos,
        std::string(ran.message()));
  });
}
