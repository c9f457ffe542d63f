// SPDX-License-Identifier: Apache-2.0
// plans_test.cpp: where plans come from: warm-up, measured costs, options; and that all ranks have the same.
#include "model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <mutex>

using namespace overlap_test;

namespace {

// One step in which gradients become ready as `order` says, with a value that tells rank and step.
Status step(Rank& r, GradientSync& sync, const std::vector<uint32_t>& order, float value) {
  for (const uint32_t i : order) {
    const std::vector<float> data(sync.gradient(i).bytes / 4, value + static_cast<float>(r.rank + i));
    TN_TRY(r.stream.upload(sync.gradient(i), data));
    TN_TRY(sync.ready(i));
  }
  TN_TRY(sync.finish(r.stream));
  const float mean = value + static_cast<float>(r.size - 1) / 2;
  for (const uint32_t i : order) {
    std::vector<float> found(sync.gradient(i).bytes / 4);
    TN_TRY(r.stream.download(found, sync.gradient(i)));
    TN_TRY(r.stream.sync());
    TN_TRY(
        expect(found.back() == mean + static_cast<float>(i), "the mean is " + std::to_string(found.back())));
  }
  return {};
}

}  // namespace

TEST_CASE("plans: after the warm-up all ranks plan anew from what was measured, and gradients move") {
  std::mutex mutex;
  std::vector<uint64_t> hashes;
  together(3, [&](Rank& r) -> Status {
    // Forwards, not backwards as the first plan expects.
    const std::vector<uint32_t> order{0, 1, 2, 3, 4, 5};
    GradientSync sync =
        TN_TRY(GradientSync::create(r.device, r.comm, parameters({256, 256, 256, 256, 256, 256}), {},
                                    {.warm_up_steps = 2, .target = eager_target()}));
    const CommPlan first = sync.plan();
    for (int i = 0; i < 5; ++i) {
      const bool moved = TN_TRY(sync.begin(r.stream));
      TN_TRY(expect(moved == (i == 2), "gradients moved before step " + std::to_string(i)));
      TN_TRY(step(r, sync, order, static_cast<float>(i)));
    }
    TN_TRY(expect(sync.plan().hash() != first.hash(), "the plan is still the first"));
    TN_TRY(expect(sync.plan().options().mode == BucketRule::automatic, "the plan is of another mode"));
    TN_TRY(expect(first.arena().slots[5].offset == 0 && sync.plan().arena().slots[0].offset == 0,
                  "what is ready first does not lie in front"));
    const std::lock_guard lock(mutex);
    hashes.push_back(sync.plan().hash());
    return {};
  });
  REQUIRE(hashes.size() == 3);
  CHECK(hashes[0] == hashes[1]);
  CHECK(hashes[0] == hashes[2]);
}

TEST_CASE("plans: costs that are not given are measured, and what computing and sending do to each other") {
  together(2, [](Rank& r) -> Status {
    GradientSync sync =
        TN_TRY(GradientSync::create(r.device, r.comm, parameters({2'000'000, 7}), {}, {.warm_up_steps = 1}));
    for (int i = 0; i < 3; ++i) {
      TN_TRY(sync.begin(r.stream));
      TN_TRY(step(r, sync, {1, 0}, 1));
    }
    const CommPrediction& time = sync.plan().predicted();
    double alone = 0;
    for (const Gradient& gradient : sync.plan().step().gradients) alone = std::max(alone, gradient.ready_ns);
    TN_TRY(expect(alone > 0, "arrivals were not measured"));
    TN_TRY(expect(time.backward_ns >= alone, "collectives made backward quicker"));
    return expect(time.communication_ns > 0, "nothing was measured");
  });
}

TEST_CASE("plans: ranks that predict other arrivals plan by the latest of each") {
  together(2, [](Rank& r) -> Status {
    std::vector<Gradient> model = parameters({64, 32, 16});
    for (size_t i = 0; i < model.size(); ++i)
      model[i].ready_ns = 1000.0 * static_cast<double>(r.rank == 0 ? i + 1 : model.size() - i);
    GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, model, {}, {.target = eager_target()}));
    const auto& gradients = sync.plan().step().gradients;
    return expect(
        gradients[0].ready_ns == 3000 && gradients[1].ready_ns == 2000 && gradients[2].ready_ns == 3000,
        "each rank has its own arrivals");
  });
}

TEST_CASE("plans: a gradient that another stream makes arrives when its point is reached") {
  together(2, [](Rank& r) -> Status {
    Stream other = TN_TRY(r.device.stream({.name = "other"}));
    GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, parameters({64, 64}), {},
                                                    {.warm_up_steps = 1, .target = eager_target()}));
    for (int i = 0; i < 2; ++i) {
      TN_TRY(sync.begin(r.stream));
      // The first parameter's is late, though it is told of at once and `r.stream` has nothing to do but to begin.
      TN_TRY(other.wait(TN_TRY(r.stream.record())));
      TN_TRY(other.host_call([] {
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
        while (std::chrono::steady_clock::now() < end) continue;
      }));
      TN_TRY(other.fill(sync.gradient(0)));
      TN_TRY(sync.ready(0, TN_TRY(other.record())));
      TN_TRY(r.stream.fill(sync.gradient(1)));
      TN_TRY(sync.ready(1));
      TN_TRY(sync.finish(r.stream));
      TN_TRY(r.stream.sync());
    }
    const auto& gradients = sync.plan().step().gradients;
    return expect(gradients[0].ready_ns >= 19e6, "it is taken to have come when it was told of");
  });
}

TEST_CASE("plans: as many streams as were asked for, though automatic mode would try fewer") {
  together(2, [](Rank& r) -> Status {
    const OverlapOptions overlap{.mode = BucketRule::per_tensor, .nccl_comm_num = 6};
    GradientSync sync = TN_TRY(GradientSync::create(
        r.device, r.comm, parameters({10, 20, 30, 40, 50, 60, 70}), overlap, {.target = eager_target()}));
    TN_TRY(expect(sync.plan().streams() == 6, "the plan has another number of streams"));
    TN_TRY(sync.begin(r.stream));
    return step(r, sync, {6, 5, 4, 3, 2, 1, 0}, 1);
  });
}

TEST_CASE("plans: each number of streams carries what the plan gives it, waiting after each or not") {
  const Device device = open_cpu();
  for (const uint32_t streams : {1u, 2u, 3u}) {
    for (const bool wait : {false, true}) {
      together(device, 2, [&](Rank& r) -> Status {
        const OverlapOptions overlap{
            .mode = BucketRule::per_tensor, .nccl_comm_num = streams, .sync_nccl_allreduce = wait};
        GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, parameters({10, 200, 3'000, 40}),
                                                        overlap, {.target = eager_target()}));
        TN_TRY(expect(sync.plan().streams() == streams, "the plan has another number of streams"));
        for (int i = 0; i < 6; ++i) {
          TN_TRY(sync.begin(r.stream));
          TN_TRY(step(r, sync,
                      r.rank == 0 ? std::vector<uint32_t>{0, 3, 1, 2} : std::vector<uint32_t>{2, 3, 0, 1},
                      static_cast<float>(i)));
        }
        return {};
      });
    }
  }
}

TEST_CASE("plans: the log says how many all-reduce operators are left after fusion") {
  tenon::test::HeardLog log;
  Result<Runtime> tenon = Runtime::open(log.of(tenon::test::built_plugins({})));
  REQUIRE_MESSAGE(tenon.ok(), tenon.message());
  Result<Device> device = tenon->device("cpu");
  REQUIRE_MESSAGE(device.ok(), device.message());
  const Store store = Store::in_process();
  const auto outcomes = as_threads(2, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(join(*device, store, rank, 2));
    const OverlapOptions overlap{.mode = BucketRule::documents, .fuse_grad_max_layers = 1};
    const auto made = GradientSync::create(r.device, r.comm, parameters({1, 2, 3, 4, 5, 6}), overlap,
                                           {.target = eager_target()});
    return made.ok() ? Status() : Status(made.error());
  });
  for (const Status& outcome : outcomes) CHECK_MESSAGE(outcome.ok(), outcome.message());
  CHECK(log.count("6 all-reduce operators, after fusion 3") == 2);
}
