// SPDX-License-Identifier: Apache-2.0
// Steps of several ranks: the same samples give the same weights however many share them, all ranks have the same bits, and
// what goes wrong is told.
#include "integration/overlap/model.hpp"
#include "integration/train/model.hpp"
#include "plan/state.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <mutex>

using namespace train_test;
using overlap_test::eager_target;
using overlap_test::expect;
using overlap_test::Rank;
using overlap_test::together;

namespace {

constexpr int64_t batch = 8;

// This rank's part of a step's samples.
Samples part(uint32_t rank, uint32_t size, uint64_t seed) {
  const Samples all = samples(batch, seed);
  const size_t each = batch / size, first = rank * each;
  Samples out;
  out.x.assign(all.x.begin() + static_cast<int64_t>(first * width),
               all.x.begin() + static_cast<int64_t>((first + each) * width));
  out.y.assign(all.y.begin() + static_cast<int64_t>(first),
               all.y.begin() + static_cast<int64_t>(first + each));
  return out;
}

struct Way {
  std::string name;
  Strategy strategy{};
  double clip_norm = 0;
};

Result<Executor> open(Rank& r, uint32_t size, const Way& way) {
  TrainingOptions options = way.strategy.training();
  options.optimizer = {.op = Op::adam, .rate = 0.02};
  options.clip_norm = way.clip_norm;
  options.ranks = size;
  const TrainingGraph step = TN_TRY(training_graph(network(batch / size), "loss", options));
  return Executor::open(step, r.device, way.strategy, size > 1 ? r.comm : Communicator(),
                        {.target = eager_target()});
}

// Every rank's weights after some steps.
std::vector<Everything> trained(uint32_t size, const Way& way, uint64_t steps = 12) {
  std::vector<Everything> out(size);
  std::mutex mutex;
  together(size, [&](Rank& r) -> Status {
    Executor executor = TN_TRY(open(r, size, way));
    TN_TRY(begin(executor, 1 + r.rank));  // other numbers on each
    TN_TRY(executor.share());
    for (uint64_t i = 0; i < steps; ++i) {
      const Samples given = part(r.rank, size, i);
      TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
    }
    const Everything found = TN_TRY(everything(executor));
    const std::lock_guard lock(mutex);
    out[r.rank] = found;
    return {};
  });
  return out;
}

std::vector<Way> ways() {
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

}  // namespace

TEST_CASE("ranks: 1 x 8, 2 x 4 and 4 x 2 samples give the same weights") {
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    const Everything alone = trained(1, way)[0];
    for (const uint32_t size : {2u, 4u}) {
      const std::vector<Everything> found = trained(size, way);
      for (const Everything& other : found) CHECK(other == found[0]);
      for (const char* name : {"fc1.w", "fc1.b", "fc2.w", "fc2.b"}) {
        if (found[0].empty()) continue;  // a rank has told why
        const Floats a = as<float>(alone.at(name)), b = as<float>(found[0].at(name));
        for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("ranks: steps that are captured between buckets give the bits of those that are launched") {
  for (Way way : ways()) {
    CAPTURE(way.name);
    const std::vector<Everything> captured = trained(2, way, 20);
    way.strategy.capture = false;
    CHECK(captured == trained(2, way, 20));
    CHECK(!captured[0].empty());
  }
}

TEST_CASE("ranks: in halves, all have the same bits") {
  for (const DType half : {bf16, f16}) {
    for (const auto level : {passes::AmpLevel::O1, passes::AmpLevel::O2}) {
      Way way{"mixed"};
      way.strategy.amp = true;
      way.strategy.amp_level = level;
      way.strategy.amp_dtype = half;
      way.strategy.custom_white_list = {"mul"};
      way.strategy.init_loss_scaling = 64;
      const std::vector<Everything> found = trained(2, way);
      CHECK(found[0] == found[1]);
      CHECK(!found[0].empty());
    }
  }
}

TEST_CASE("ranks: what one rank finds not finite makes the step bad for all") {
  together(2, [&](Rank& r) -> Status {
    const TrainingGraph step = TN_TRY(
        training_graph(network(batch / 2), "loss",
                       {.scaling = LossScaling{.init = 16, .decr_every_n_nan_or_inf = 1}, .ranks = 2}));
    Executor executor = TN_TRY(Executor::open(step, r.device, {}, r.comm, {.target = eager_target()}));
    TN_TRY(begin(executor, 1));
    for (uint64_t i = 0; i < 4; ++i) {
      Samples given = part(r.rank, 2, i);
      if (i == 2 && r.rank == 1) given.x[0] = std::nanf("");
      const Everything before = TN_TRY(everything(executor));
      TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
      const bool is_bad = TN_TRY(executor.value("training.found_inf.now"))
      != 0;
      TN_TRY(expect(is_bad == (i == 2), "found_inf"));
      TN_TRY(expect((before.at("fc1.w") == TN_TRY(executor.get("fc1.w"))) == is_bad, "weights"));
    }
    return expect(TN_TRY(executor.value("training.scale")) == 8, "scale");
  });
}

TEST_CASE("ranks: figures tell what is sent, and gradients are made where they leave from") {
  together(2, [&](Rank& r) -> Status {
    Way each{"each alone"};
    each.strategy.bucket_mode = BucketRule::per_tensor;
    each.strategy.warm_up_steps = 0;
    Executor executor = TN_TRY(open(r, 2, each));
    const ExecutorFigures f = executor.figures();
    TN_TRY(expect(f.gradients == 4 && f.all_reduces == 4, "counts"));
    const uint64_t numbers = static_cast<uint64_t>(width) * 5 + 5 + 5 + 1;
    TN_TRY(expect(f.sent_bytes >= numbers * sizeof(float) && f.gradient_bytes >= f.sent_bytes, "bytes"));
    for (const auto& exchange : executor.plan().state().exchanges)
      TN_TRY(expect(exchange.from.bound == exchange.bound, "a gradient is copied"));
    const std::string text = executor.explain();
    TN_TRY(expect(text.find("exchange 4 all_reduces before launch") != std::string::npos, text));
    return expect(text.find("4 all-reduce operators") != std::string::npos, text);
  });
}

TEST_CASE("ranks: a failed step is the end, and says that a checkpoint is needed") {
  together(2,
           [&](Rank& r) -> Status {
             Executor executor = TN_TRY(open(r, 2, {"as it is"}));
             TN_TRY(begin(executor, 1));
             TN_TRY(executor.share());
             const Samples given = part(r.rank, 2, 1);
             TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
             if (r.rank == 1) return {};  // leaves
             Status last;
             for (int i = 0; i < 50 && last.ok(); ++i) {
               float loss = 0;
               const auto ran = executor.run({fed("x", given.x), fed("y", given.y)}, {fetched("loss", loss)});
               if (!ran.ok()) last = Status(ran.error());
             }
             TN_TRY(expect(!last.ok(), "nothing failed"));
             TN_TRY(expect(last.error().message.find("restore a checkpoint") != std::string::npos,
                           last.error().message));
             return expect(executor.get("fc1.w").code() == last.code(), "a later call does not tell");
           },
           {.timeout = std::chrono::seconds(5)});
}
