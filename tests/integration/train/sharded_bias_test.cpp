// SPDX-License-Identifier: Apache-2.0
// What sharded mode with O2 does other than the plain mode: a bias's gradient, a sum in f32, goes between ranks in the type that the
// bias is kept in, as shards of weights and of gradients lie alike.
#include "integration/train/ranks.hpp"
#include "support/skip.hpp"

#include <doctest/doctest.h>

#include <cstring>

namespace {

using namespace train_test;
using overlap_test::open_cpu;

// A product of halves and its bias, whose gradient is a sum in f32.
Graph biased(int64_t rows) {
  Graph g("biased");
  const auto x = g.input("x", {f32, {rows, width}}), y = g.input("y", {f32, {rows, 1}});
  const auto out = g.add(g.matmul(x, g.param("w", {f32, {width, 1}})), g.param("b", {f32, {1}}));
  g.output("loss", g.mean(g.square(g.sub(g.cast(out, f32), y)), {0, 1}));
  return g;
}

Result<Everything> taught_biased(Rank& r, DType half, bool sharded) {
  Strategy strategy;
  strategy.amp = true;
  strategy.amp_level = passes::AmpLevel::O2;
  strategy.amp_dtype = half;
  strategy.init_loss_scaling = 64;
  strategy.sharded = sharded;
  TrainingOptions options = strategy.training();
  options.optimizer = {.op = Op::momentum, .rate = 0.05};
  options.ranks = r.size;
  Executor executor =
      TN_TRY(open(r, {.strategy = strategy}, TN_TRY(training_graph(biased(4), "loss", options))));
  TN_TRY(executor.initialize(1));
  TN_TRY(expect(!sharded || executor.explain().find("+ amp: b.gradient: all_reduce in") != std::string::npos,
                "the bias is in halves"));
  for (uint64_t i = 0; i < 9; ++i) {
    const Samples given = samples(4, r.size * i + r.rank);
    TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
  }
  return everything(executor);
}

float first_of(const std::vector<std::byte>& bytes) {
  float out = 0;
  std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

}  // namespace

TEST_CASE("sharded: the gradient of a bias that O2 keeps in halves is summed in halves") {
  Device device = open_cpu();
  if (!plan(biased(4), device).ok()) TENON_SKIP("products", "this build of the CPU plugin has none of f32");
  for (const DType half : {bf16, f16}) {
    CAPTURE(name(half));
    std::vector<Everything> found[2];
    for (const bool sharded : {false, true})
      found[sharded ? 1 : 0] = everyones(device, 2, [&](Rank& r) { return taught_biased(r, half, sharded); });
    const std::vector<Everything>&plain = found[0], &shards = found[1];
    REQUIRE(shards[0].contains("b"));
    CHECK(shards[0] == shards[1]);
    CHECK(first_of(plain[0].at("b")) != 0);
    for (const char* name : {"w", "b"})
      CHECK(first_of(shards[0].at(name)) == doctest::Approx(first_of(plain[0].at(name))).epsilon(0.02));
  }
}
