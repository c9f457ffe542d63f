// SPDX-License-Identifier: Apache-2.0
// The handwritten digits are learned in every precision and by any number of ranks.
#include "integration/overlap/model.hpp"
#include "samples/digits/learning.hpp"
#include "support/full.hpp"
#include "support/skip.hpp"

#include <doctest/doctest.h>

#include <mutex>
#include <numeric>
#include <span>

using overlap_test::expect;
using overlap_test::Rank;
using overlap_test::together;
using namespace tenon;

namespace {

constexpr uint64_t whole_run = 8;  // epochs
constexpr double margin = 0.05;    // of f32's loss: docs/training.md says it

struct Way {
  std::string name;
  Strategy strategy{};
};

std::vector<Way> ways() {
  std::vector<Way> out{{"f32"}};
  for (const DType half : {bf16, f16}) {
    for (const auto level : {passes::AmpLevel::O1, passes::AmpLevel::O2}) {
      Way way{std::string(name(half)) + (level == passes::AmpLevel::O1 ? " O1" : " O2")};
      way.strategy.amp = true;
      way.strategy.amp_dtype = half;
      way.strategy.amp_level = level;
      out.push_back(way);
    }
  }
  return out;
}

digits::World world(Rank& r, uint32_t size) {
  digits::World out{.device = r.device, .file = TENON_TEST_DIGITS};
  out.here.rank = r.rank;
  out.here.size = size;
  if (size > 1) out.comm = r.comm;
  return out;
}

// Rank 0's losses of the first steps, and the accuracy at the end.
struct Outcome {
  std::vector<float> losses;
  double accuracy = 0;
};
Outcome learn(const Way& way, uint32_t size, uint64_t epochs) {
  Outcome out;
  std::mutex mutex;
  together(size, [&](Rank& r) -> Status {
    digits::World w = world(r, size);
    Loader loader = TN_TRY(digits::open_loader(w));
    Executor executor = TN_TRY(digits::open_executor(w, way.strategy));
    std::vector<float> losses;
    for (uint64_t i = 0; i < epochs * loader.steps(); ++i) {
      float loss = 0;
      const Batch samples = TN_TRY(loader.next(executor.stream()));
      const Binding fetch = fetched("loss", loss);
      TN_TRY(executor.run(samples.bindings(), {&fetch, 1}));
      // The mean over all ranks: each has its own samples.
      loss /= static_cast<float>(size);
      const Buffer mean = TN_TRY(r.device.allocate(r.stream, sizeof loss));
      TN_TRY(r.stream.upload(mean, std::span(&loss, 1)));
      TN_TRY(r.comm.all_reduce(r.stream, mean, mean, f32));
      TN_TRY(r.stream.download(std::span(&loss, 1), mean));
      TN_TRY(r.stream.sync());
      losses.push_back(loss);
    }
    const double accuracy = TN_TRY(digits::accuracy(w, executor));
    const std::lock_guard lock(mutex);
    if (r.rank == 0) out = {losses, accuracy};
    return {};
  });
  return out;
}

// Over the last epoch.
double last_loss(const Outcome& outcome) {
  const std::span<const float> all(outcome.losses), last = all.last(all.size() / whole_run);
  return std::accumulate(last.begin(), last.end(), 0.0) / static_cast<double>(last.size());
}

// The CPU plugin of some builds has no products of f32.
bool has_products() {
  Device device = overlap_test::open_cpu();
  const digits::Network network(4, true);
  return plan(network.graph(), device).ok();
}

}  // namespace

TEST_CASE(
    "digits: in every precision, on one, two and four ranks, at least 97 of 100 are told right, with the "
    "loss of f32") {
  if (!has_products()) TENON_SKIP("products", "this build of the CPU plugin has none of f32");
  double exact = 0;  // of f32, which comes first
  for (const Way& way : ways()) {
    for (const uint32_t size : {1u, 2u, 4u}) {
      const bool is_short = way.name == "f32" || size == 2;
      if (!is_short && !tenon::test::full_run()) continue;
      CAPTURE(way.name);
      CAPTURE(size);
      const Outcome outcome = learn(way, size, whole_run);
      const double loss = last_loss(outcome);
      if (exact == 0) exact = loss;
      CHECK(outcome.accuracy >= 0.97);
      CHECK(loss == doctest::Approx(exact).epsilon(margin));
    }
  }
}

TEST_CASE("digits: the losses of one rank and of four are the same") {
  if (!has_products()) TENON_SKIP("products", "this build of the CPU plugin has none of f32");
  const Outcome one = learn(ways()[0], 1, 1), four = learn(ways()[0], 4, 1);
  REQUIRE(one.losses.size() == four.losses.size());
  for (size_t i = 0; i < one.losses.size(); ++i)
    CHECK(one.losses[i] == doctest::Approx(four.losses[i]).epsilon(1e-3));
}
