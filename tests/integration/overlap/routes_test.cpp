// SPDX-License-Identifier: Apache-2.0
// routes_test.cpp: buckets that go through groups of ranks: by leaders or by shards, each by its cost.
#include "model.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace overlap_test;

namespace {

// What is small goes through leaders, what is large through shards, and nothing goes flat.
CommTarget costs_of_groups() {
  CommTarget target;
  target.all_reduce.push_back({Route::flat, CostTable::linear(1e6, 10)});
  target.all_reduce.push_back({Route::leaders, CostTable::linear(10, 2)});
  target.all_reduce.push_back({Route::sharded, CostTable::linear(4'000, 0.5)});
  return target;
}

std::set<Route> routes_of(const CommPlan& plan) {
  std::set<Route> out;
  for (const Bucket& bucket : plan.buckets()) out.insert(bucket.route);
  return out;
}

// Whole numbers, whose sums have the same bits on every route.
Status step(Rank& r, GradientSync& sync, float value) {
  const auto count = static_cast<uint32_t>(sync.plan().step().gradients.size());
  for (uint32_t i = count; i-- > 0;) {
    std::vector<float> data(sync.gradient(i).bytes / 4);
    for (size_t k = 0; k < data.size(); ++k)
      data[k] = value + static_cast<float>(r.rank * 3 + i) + static_cast<float>(k % 50);
    TN_TRY(r.stream.upload(sync.gradient(i), data));
    TN_TRY(sync.ready(i));
  }
  TN_TRY(sync.finish(r.stream));
  for (uint32_t i = 0; i < count; ++i) {
    std::vector<float> found(sync.gradient(i).bytes / 4);
    TN_TRY(r.stream.download(found, sync.gradient(i)));
    TN_TRY(r.stream.sync());
    const float mean = value + 3 * static_cast<float>(r.size - 1) / 2 + static_cast<float>(i);
    for (size_t k = 0; k < found.size(); ++k)
      TN_TRY(expect(found[k] == mean + static_cast<float>(k % 50), [&] {
        return "element " + std::to_string(k) + " of " + std::to_string(i) + " is " +
               std::to_string(found[k]) + " with\n" + sync.plan().explain();
      }));
  }
  return {};
}

}  // namespace

TEST_CASE("routes: each bucket goes where it costs least, on one stream or several") {
  const Device device = open_cpu();
  for (const uint32_t streams : {1u, 3u}) {
    together(device, 4, [&](Rank& r) -> Status {
      const OverlapOptions overlap{
          .mode = BucketRule::per_tensor, .nccl_comm_num = streams, .hierarchical_allreduce_inter_nranks = 2};
      GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, parameters({10, 9'001, 70, 2'000}),
                                                      overlap, {.target = costs_of_groups()}));
      TN_TRY(expect(routes_of(sync.plan()) == std::set<Route>{Route::leaders, Route::sharded},
                    "the routes are others:\n" + sync.plan().explain()));
      for (int i = 0; i < 5; ++i) {
        TN_TRY(sync.begin(r.stream));
        TN_TRY(step(r, sync, static_cast<float>(i)));
      }
      return expect(TN_TRY(sync.totals(r.stream)).samples == 4, "samples are miscounted");
    });
  }
}

TEST_CASE(
    "routes: costs that are not given are measured, and groups are never passed by when they are asked for") {
  together(4, [](Rank& r) -> Status {
    const OverlapOptions overlap{.use_hierarchical_allreduce = true,
                                 .hierarchical_allreduce_inter_nranks = 2};
    GradientSync sync = TN_TRY(
        GradientSync::create(r.device, r.comm, parameters({5'000, 300}), overlap, {.warm_up_steps = 1}));
    for (int i = 0; i < 3; ++i) {
      TN_TRY(sync.begin(r.stream));
      TN_TRY(expect(!routes_of(sync.plan()).contains(Route::flat), "a bucket goes flat"));
      TN_TRY(step(r, sync, static_cast<float>(i)));
    }
    const std::string plan = sync.plan().explain();
    return expect(plan.find("4 ranks in 2 groups of 2") != std::string::npos,
                  "the groups are others: " + plan);
  });
}

TEST_CASE("routes: where there are none, all goes flat, and a note says so") {
  const Device device = open_cpu();
  // One group of all ranks; and the order of additions must not follow from the route.
  for (const bool deterministic : {false, true}) {
    together(device, 4,
             [&](Rank& r) -> Status {
               const OverlapOptions overlap{.use_hierarchical_allreduce = true,
                                            .hierarchical_allreduce_inter_nranks = deterministic ? 2u : 4u};
               GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, parameters({100, 20}),
                                                               overlap, {.target = costs_of_groups()}));
               TN_TRY(expect(routes_of(sync.plan()) == std::set<Route>{Route::flat}, "there are groups"));
               TN_TRY(expect(sync.plan().explain().find("has no route with groups") != std::string::npos,
                             "nothing is said: " + sync.plan().explain()));
               TN_TRY(sync.begin(r.stream));
               return step(r, sync, 1);
             },
             {.deterministic = deterministic});
  }
}

TEST_CASE("routes: one rank alone, a hook and sharded mode leave groups aside") {
  const Device device = open_cpu();
  CommTarget target = costs_of_groups();
  target.reduce_scatter = target.all_gather = CostTable::linear(10, 1);
  const auto flat = [](const GradientSync& sync) {
    return expect(routes_of(sync.plan()) == std::set<Route>{Route::flat}, "there are groups");
  };
  together(device, 1, [&](Rank& r) -> Status {
    GradientSync sync =
        TN_TRY(GradientSync::create(r.device, r.comm, parameters({100, 20}), {}, {.target = target}));
    TN_TRY(flat(sync));
    TN_TRY(sync.begin(r.stream));
    return step(r, sync, 1);
  });
  together(device, 2, [&](Rank& r) -> Status {
    GradientSync hooked = TN_TRY(GradientSync::create(
        r.device, r.comm, parameters({100, 20}), {}, {.target = target, .hook = bf16_compression(r.device)}));
    TN_TRY(flat(hooked));
    TN_TRY(hooked.begin(r.stream));
    TN_TRY(step(r, hooked, 1));  // whole numbers below 256 are exact in bf16
    const GradientSync sharded = TN_TRY(
        GradientSync::create(r.device, r.comm, parameters({100}), {.sharded = true}, {.target = target}));
    return flat(sharded);
  });
}

TEST_CASE("routes: ranks that ask for other groups are told of each other") {
  const Device device = open_cpu();
  for (const bool one_asks : {false, true}) {
    together(device, 4,
             [&](Rank& r) -> Status {
               OverlapOptions overlap{.hierarchical_allreduce_inter_nranks = 2};
               if (r.rank == 3) overlap.hierarchical_allreduce_inter_nranks = one_asks ? 0 : 4;
               const auto made = GradientSync::create(r.device, r.comm, parameters({100}), overlap, {});
               const std::string message(made.message());
               return expect(made.code() == TN_MISMATCH && message.find("rank 3 has") != std::string::npos,
                             "not refused as expected: " + message);
             },
             {.timeout = std::chrono::seconds(10)});
  }
}

TEST_CASE("routes: a rank that stops is named through groups, too") {
  std::atomic<int> told{0};
  together(4,
           [&](Rank& r) -> Status {
             GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, parameters({100, 5'000}),
                                                             {.hierarchical_allreduce_inter_nranks = 2},
                                                             {.target = costs_of_groups()}));
             TN_TRY(sync.begin(r.stream));
             if (r.rank == 3) {
               while (told < 3) std::this_thread::yield();
               return {};
             }
             for (const uint32_t i : {1u, 0u}) TN_TRY(sync.ready(i));
             Status late = sync.finish(r.stream);
             if (late.ok()) late = r.stream.sync();
             ++told;
             return expect(!late.ok() && late.message().find("rank 3") != std::string::npos,
                           "expected a failure that names rank 3, got: " + std::string(late.message()));
           },
           {.timeout = std::chrono::milliseconds(700)});
}
