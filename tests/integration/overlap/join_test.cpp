// SPDX-License-Identifier: Apache-2.0
// join_test.cpp: ranks with fewer batches than others go on taking part, with zeros, until all are done.
#include "model.hpp"

#include <doctest/doctest.h>

using namespace overlap_test;

namespace {

// What batch `batch` of rank `rank` brings: sums over as many samples as it has.
float sum_of(uint32_t rank, uint32_t batch) { return static_cast<float>(10 * rank + batch + 1); }
uint64_t samples_of(uint32_t rank, uint32_t batch) { return 1 + (rank + batch) % 3; }

// The mean of step `step` when rank r has batches[r] batches.
float mean_of(const std::vector<uint32_t>& batches, uint32_t step) {
  float sum = 0;
  uint64_t samples = 0;
  for (uint32_t rank = 0; rank < batches.size(); ++rank) {
    if (step >= batches[rank]) continue;
    sum += sum_of(rank, step);
    samples += samples_of(rank, step);
  }
  return sum / static_cast<float>(samples);
}

Status bring(Rank& r, GradientSync& sync, float value) {
  for (const uint32_t i : {1u, 0u}) {
    TN_TRY(r.stream.upload(sync.gradient(i), std::vector<float>(sync.gradient(i).bytes / 4, value)));
    TN_TRY(sync.ready(i));
  }
  return {};
}

Status expect_mean(Rank& r, const tn_span& at, float mean, const std::string& what) {
  std::vector<float> found(at.bytes / 4);
  TN_TRY(r.stream.download(found, at));
  TN_TRY(r.stream.sync());
  return expect(found.front() == mean && found.back() == mean,
                what + ": the mean is " + std::to_string(found.back()) + ", not " + std::to_string(mean));
}

// An epoch of batches[rank] batches here; every rank sees the mean of every step.
Status epoch(Rank& r, GradientSync& sync, const std::vector<uint32_t>& batches) {
  const uint32_t steps = *std::max_element(batches.begin(), batches.end());
  uint32_t step = 0;
  for (; step < batches[r.rank]; ++step) {
    TN_TRY(sync.begin(r.stream));
    TN_TRY(bring(r, sync, sum_of(r.rank, step)));
    TN_TRY(sync.finish(r.stream, {.samples = samples_of(r.rank, step)}));
    TN_TRY(expect_mean(r, sync.gradient(1), mean_of(batches, step), "step " + std::to_string(step)));
  }
  for (; TN_TRY(sync.join(r.stream)); ++step)
    TN_TRY(expect_mean(r, sync.gradient(1), mean_of(batches, step), "joined, step " + std::to_string(step)));
  return expect(step == steps, "there were " + std::to_string(step) + " steps, not " + std::to_string(steps));
}

}  // namespace

TEST_CASE("join: ranks without batches see all means until all are done, epoch after epoch") {
  const std::vector<uint32_t> epochs[] = {{5, 2, 3}, {0, 4, 4}, {3, 3, 3}, {0, 0, 0}, {1, 0, 6}};
  together(3, [&](Rank& r) -> Status {
    GradientSync sync = TN_TRY(GradientSync::create(
        r.device, r.comm, parameters({100, 7}), {.fuse_grad_max_layers = 1, .nccl_comm_num = 2},
        {.warm_up_steps = 4, .measure_every = 3, .target = eager_target()}));  // plans change on the way
    for (const std::vector<uint32_t>& batches : epochs) TN_TRY(epoch(r, sync, batches));
    return {};
  });
}

TEST_CASE("join: what no_sync held back leaves with the first step, and is updated by") {
  together(2, [](Rank& r) -> Status {
    GradientSync sync =
        TN_TRY(GradientSync::create(r.device, r.comm, parameters({10, 5}), {}, {.target = eager_target()}));
    TN_TRY(sync.begin(r.stream, Backward::no_sync));
    TN_TRY(bring(r, sync, 6.0f));
    TN_TRY(
        expect(sync.finish(r.stream, {.samples = 3, .done = true}).code() == TN_INVALID, "done is not told"));
    TN_TRY(sync.finish(r.stream, {.samples = 3}));
    TN_TRY(expect(TN_TRY(sync.join(r.stream)), "what was held back is lost"));
    TN_TRY(expect_mean(r, sync.gradient(0), 2.0f, "what was held back"));
    return expect(!TN_TRY(sync.join(r.stream)), "there is more to come");
  });
}

TEST_CASE("join: a step without samples does not end it while a rank has batches left") {
  together(2, [](Rank& r) -> Status {
    GradientSync sync =
        TN_TRY(GradientSync::create(r.device, r.comm, parameters({10, 5}), {}, {.target = eager_target()}));
    if (r.rank == 0) {
      TN_TRY(expect(TN_TRY(sync.join(r.stream)), "it ended before rank 1 had"));
    } else {
      TN_TRY(sync.begin(r.stream));
      TN_TRY(sync.finish(r.stream, {.samples = 0}));
    }
    TN_TRY(expect(TN_TRY(sync.totals(r.stream)).ranks_done == 1, "one rank is done"));
    TN_TRY(expect(!TN_TRY(sync.join(r.stream)), "both are done"));
    return expect(TN_TRY(sync.totals(r.stream)).ranks_done == 2, "both ranks are done");
  });
}

TEST_CASE("join: in sharded mode a rank without batches goes on updating its shards") {
  const std::vector<uint32_t> batches{1, 4, 2};
  together(3, [&](Rank& r) -> Status {
    GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, parameters({100, 50}),
                                                    {.sharded = true}, {.target = eager_shards()}));
    const auto update = [&](uint32_t step) -> Status {
      for (const Shard& shard : sync.shards()) TN_TRY(r.stream.copy(shard.parameter, shard.gradient));
      TN_TRY(sync.gather(r.stream));
      TN_TRY(sync.await(r.stream, 0));
      return expect_mean(r, sync.parameter(0), mean_of(batches, step), "step " + std::to_string(step));
    };
    for (int again = 0; again < 2; ++again) {
      uint32_t step = 0;
      for (; step < batches[r.rank]; ++step) {
        TN_TRY(sync.begin(r.stream));
        TN_TRY(bring(r, sync, sum_of(r.rank, step)));
        TN_TRY(sync.finish(r.stream, {.samples = samples_of(r.rank, step)}));
        TN_TRY(update(step));
      }
      for (; TN_TRY(sync.join(r.stream)); ++step) TN_TRY(update(step));
      TN_TRY(expect(step == 4, "there were " + std::to_string(step) + " steps"));
    }
    return {};
  });
}

TEST_CASE("join: a rank that stops is named to the one that has joined, in time") {
  std::atomic<bool> told{false};
  together(2,
           [&](Rank& r) -> Status {
             GradientSync sync = TN_TRY(
                 GradientSync::create(r.device, r.comm, parameters({10, 5}), {}, {.target = eager_target()}));
             if (r.rank == 1) {
               while (!told) std::this_thread::yield();
               return {};
             }
             const auto late = sync.join(r.stream);
             told = true;
             TN_TRY(expect(late.code() == TN_TIMEOUT && late.message().find("rank 1") != std::string::npos,
                           "expected a timeout that names rank 1, got: " + std::string(late.message())));
             return expect(sync.join(r.stream).code() == TN_TIMEOUT, "it goes on");
           },
           {.timeout = std::chrono::milliseconds(500)});
}
