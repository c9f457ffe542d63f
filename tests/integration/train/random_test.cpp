// SPDX-License-Identifier: Apache-2.0
// random_test.cpp: networks of any form, trained on two ranks: weights and states have the bits of one all-reduce for each gradient on
// one stream, however gradients are put together.
#include "integration/train/ranks.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <array>
#include <iterator>

namespace {

using namespace train_test;

constexpr int64_t drawn_rows = 2;  // of a rank

// Layers of drawn widths, with and without biases; some read what is further back, and some share a weight with a layer before.
class DrawnNetwork {
 public:
  explicit DrawnNetwork(uint64_t seed) : random_(seed) {
    const auto x = g_.input("x", {f32, {drawn_rows, width}}), y = g_.input("y", {f32, {drawn_rows, 1}});
    behind_ = {{x, width}};
    const uint64_t layers = 2 + random_() % 6;
    for (uint64_t i = 0; i < layers; ++i) behind_.push_back(layer());
    GraphValue out = product(g_, behind_.back().value, weight(behind_.back().width, 1), drawn_rows,
                             behind_.back().width, 1);
    if (half()) out = g_.mul(out, g_.param("scale", {f32, {1}}));
    g_.output("loss", g_.mean(g_.square(g_.sub(out, y)), {0, 1}));
  }
  const Graph& graph() const { return g_; }

 private:
  struct Made {
    GraphValue value;
    int64_t width = 0;
  };

  bool half() { return random_() % 2 == 0; }
  std::string called(const char* kind) { return kind + std::to_string(params_++); }

  GraphValue weight(int64_t from, int64_t to) {
    for (const auto& [shape, value] : weights_)
      if (shape == std::pair(from, to) && half()) return value;
    return weights_.emplace_back(std::pair(from, to), g_.param(called("w"), {f32, {from, to}})).second;
  }

  Made layer() {
    const Made from = behind_[half() ? behind_.size() - 1 : random_() % behind_.size()];
    const int64_t to = static_cast<int64_t>(std::array{3, 5, 5, 8, 40}[random_() % 5]);
    GraphValue h = product(g_, from.value, weight(from.width, to), drawn_rows, from.width, to);
    if (half()) h = g_.add(h, g_.param(called("b"), {f32, {to}}));
    h = half() ? g_.tanh(h) : g_.relu(h);
    for (const Made& other : behind_) {
      if (other.width == to && half()) h = g_.add(h, other.value);
    }
    return {h, to};
  }

  std::mt19937_64 random_;
  Graph g_{"drawn"};
  std::vector<Made> behind_{};
  std::vector<std::pair<std::pair<int64_t, int64_t>, GraphValue>> weights_{};
  uint64_t params_ = 0;
};

Strategy drawn_strategy(uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr BucketRule rules[] = {BucketRule::automatic, BucketRule::documents, BucketRule::ddp,
                                  BucketRule::mg_wfbp, BucketRule::none};
  Strategy out;
  out.bucket_mode = rules[random() % std::size(rules)];
  out.fuse_grad_max_layers = 1 + random() % 4;
  out.nccl_comm_num = 1 + random() % 3;
  out.uneven_batches = random() % 2 == 0;
  out.fuse_all_optimizer_ops = random() % 2 == 0;
  out.enable_inplace = random() % 2 == 0;
  out.warm_up_steps = static_cast<uint32_t>(random() % 3);
  out.sharded = random() % 3 == 0;
  return out;
}

std::vector<Everything> drawn_and_taught(const Device& device, const Graph& model, const Strategy& strategy) {
  return everyones(device, 2,
                   [&](Rank& r) -> Result<Everything> {
                     TrainingOptions options = strategy.training();
                     options.optimizer = {.op = Op::momentum, .rate = 0.05};
                     options.ranks = r.size;
                     Executor executor = TN_TRY(
                         open(r, {.strategy = strategy}, TN_TRY(training_graph(model, "loss", options))));
                     TN_TRY(executor.initialize(7));
                     for (uint64_t i = 0; i < 5; ++i) {
                       const Samples given = samples(drawn_rows, r.size * i + r.rank);
                       TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
                     }
                     return everything(executor);
                   },
                   {.deterministic = true});
}

}  // namespace

TEST_CASE(
    "random networks: in buckets, in parts and in shards, bits are those of one all-reduce a gradient") {
  const Device device = overlap_test::open_cpu();
  const uint64_t first = tenon::test::seed();
  const int count = tenon::test::full_or("random networks", 12, 200);
  for (int i = 0; i < count; ++i) {
    const uint64_t one = first + static_cast<uint64_t>(i);
    const DrawnNetwork network(one);
    const Strategy drawn = drawn_strategy(one);
    Strategy plain;
    plain.bucket_mode = BucketRule::per_tensor;
    plain.nccl_comm_num = 1;
    plain.sync_nccl_allreduce = true;
    plain.uneven_batches = drawn.uneven_batches;
    INFO("TENON_TEST_SEED=" << one << "\n" << network.graph().text() << drawn.text());
    const std::vector<Everything> found = drawn_and_taught(device, network.graph(), drawn);
    REQUIRE(!found[0].empty());
    CHECK(found[1] == found[0]);
    CHECK(found == drawn_and_taught(device, network.graph(), plain));
  }
}
