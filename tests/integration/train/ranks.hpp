// SPDX-License-Identifier: Apache-2.0
// ranks.hpp: a network that ranks train together in several ways, in steps of as many samples as are told.
//
// Invariant: the samples of a step do not depend on how many ranks share them.
#pragma once

#include "integration/overlap/model.hpp"
#include "integration/train/model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <mutex>

namespace train_test {

using overlap_test::eager_shards;
using overlap_test::eager_target;
using overlap_test::expect;
using overlap_test::Rank;
using overlap_test::together;

constexpr int64_t batch = 8;  // samples of a full step, on all ranks together

struct Way {
  std::string name;
  Strategy strategy{};
  double clip_norm = 0;
};

inline std::vector<Way> ways() {
  std::vector<Way> out{{"as it is"}};
  Way many{"a bucket for each gradient, three streams"};
  many.strategy.bucket_mode = BucketRule::per_tensor;
  many.strategy.nccl_comm_num = 3;
  out.push_back(many);
  Way measured{"planned anew"};
  measured.strategy.warm_up_steps = 2;
  measured.strategy.measure_every = 3;
  out.push_back(measured);
  Way apart{"nothing fused, nothing in place"};
  apart.strategy.enable_auto_fusion = apart.strategy.fuse_all_optimizer_ops = apart.strategy.enable_inplace =
      false;
  out.push_back(apart);
  out.push_back({"clipped", {}, 0.2});
  return out;
}

inline std::vector<Way> ways_in_halves() {
  std::vector<Way> out;
  for (const DType half : {bf16, f16}) {
    for (const auto level : {passes::AmpLevel::O1, passes::AmpLevel::O2}) {
      Way& way = out.emplace_back(
          Way{std::string(tenon::name(half)) + (level == passes::AmpLevel::O1 ? ", O1" : ", O2")});
      way.strategy.amp = true;
      way.strategy.amp_level = level;
      way.strategy.amp_dtype = half;
      way.strategy.custom_white_list = {"mul"};
      way.strategy.init_loss_scaling = 64;
    }
  }
  return out;
}

// For `rows` samples of a rank, and told that these are of `full` where one is given.
inline Result<TrainingGraph> step_of(const Way& way, uint32_t ranks, int64_t rows, int64_t full = 0) {
  TrainingOptions options = way.strategy.training();
  options.optimizer = {.op = Op::adam, .rate = 0.02};
  options.clip_norm = way.clip_norm;
  options.ranks = ranks;
  if (full > 0) options.samples = static_cast<uint64_t>(rows);
  options.full_batch = static_cast<uint64_t>(full);
  return training_graph(network(rows), "loss", options);
}

inline Result<Executor> open(Rank& r, const Way& way, const TrainingGraph& step) {
  return Executor::open(step, r.device, way.strategy, r.size > 1 ? r.comm : Communicator(),
                        {.target = way.strategy.sharded ? eager_shards() : eager_target()});
}

// This rank's part of a step's samples: as many as in a full step, as far as there are some left.
inline Samples part(const Rank& r, uint64_t seed, int64_t all = batch) {
  const Samples from = samples(all, seed);
  const int64_t each = batch / r.size, first = std::min(each * r.rank, all),
                end = std::min(first + each, all);
  return {Floats(from.x.begin() + first * width, from.x.begin() + end * width),
          Floats(from.y.begin() + first, from.y.begin() + end)};
}

// What each rank has in the end.
inline std::vector<Everything> everyones(const Device& device, uint32_t size,
                                         const std::function<Result<Everything>(Rank&)>& body,
                                         CommOptions options = {}) {
  std::vector<Everything> out(size);
  std::mutex mutex;
  together(
      device, size,
      [&](Rank& r) -> Status {
        const Everything found = TN_TRY(body(r));
        const std::lock_guard lock(mutex);
        out[r.rank] = found;
        return {};
      },
      std::move(options));
  return out;
}

// Every rank's parameters and states behind steps of these samples.
inline std::vector<Everything> trained(uint32_t size, const Way& way, const std::vector<int64_t>& steps) {
  return everyones(overlap_test::open_cpu(), size, [&](Rank& r) -> Result<Everything> {
    const int64_t full = batch / size;
    const bool are_even = std::count(steps.begin(), steps.end(), batch) == std::ssize(steps);
    Executor executor = TN_TRY(open(r, way, TN_TRY(step_of(way, size, full, are_even ? 0 : full))));
    TN_TRY(begin(executor, 1 + r.rank));  // other numbers on each
    TN_TRY(executor.share());
    int64_t known = full;
    for (size_t i = 0; i < steps.size(); ++i) {
      const Samples given = part(r, i, steps[i]);
      const auto rows = static_cast<int64_t>(given.y.size());
      if (rows > 0 && rows < known) TN_TRY(executor.also(TN_TRY(step_of(way, size, known = rows, full))));
      float loss = -1;
      const bool told = TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}, {fetched("loss", loss)}));
      TN_TRY(expect(told == (rows > 0) && (loss >= 0) == told, "a loss where there are samples"));
    }
    TN_TRY(expect(executor.steps() == steps.size(), "steps"));
    return everything(executor);
  });
}

inline void check_weights(const Everything& alone, const std::vector<Everything>& found) {
  for (const Everything& other : found) CHECK(other == found[0]);
  for (const char* name : {"fc1.w", "fc1.b", "fc2.w", "fc2.b"}) {
    if (found[0].empty()) continue;  // a rank has told why
    const Floats a = as<float>(alone.at(name)), b = as<float>(found[0].at(name));
    for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-4));
  }
}

}  // namespace train_test
