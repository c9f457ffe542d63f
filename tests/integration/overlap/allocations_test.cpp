// SPDX-License-Identifier: Apache-2.0
// allocations_test.cpp: once the plan holds, a step allocates nothing: every operator new of a rank's thread is counted.
#include "model.hpp"
#include "support/fewest_allocations.hpp"

#include <doctest/doctest.h>

using namespace overlap_test;
using tenon::test::fewest_allocations;
using tenon::test::own_allocations;

TEST_CASE("allocations: a step allocates nothing once the plan holds, with a timeline or without") {
  for (const bool measured : {false, true}) {
    together(2, [&](Rank& r) -> Status {
      SyncOptions options{.warm_up_steps = 1, .target = eager_target()};
      // Fewer events than come, so that old ones make room, too.
      if (measured) options.timeline = TN_TRY(Timeline::create(r.device, {.rank = r.rank, .events = 256}));
      Timeline timeline = options.timeline;
      GradientSync sync = TN_TRY(GradientSync::create(
          r.device, r.comm, arriving(parameters({100, 2'000, 30'000, 4})),
          {.fuse_grad_max_layers = 1, .nccl_comm_num = 2, .sync_nccl_allreduce = measured},
          std::move(options)));
      const auto step = [&]() -> Status {
        TN_TRY(sync.begin(r.stream));
        for (const uint32_t i : {3u, 2u, 1u, 0u}) TN_TRY(sync.ready(i));
        TN_TRY(sync.finish(r.stream));
        return {};
      };
      for (int i = 0; i < 50; ++i) TN_TRY(step());
      TN_TRY(r.stream.sync());
      const uint64_t made = TN_TRY(fewest_allocations(r.stream, step));
      TN_TRY(expect(timeline.take().events.size() == (measured ? 256 : 0), "another count of events"));
      return expect(made == 0, "50 steps allocated " + std::to_string(made) + " times");
    });
  }
}

TEST_CASE("allocations: nor does one with gradients from elsewhere, or in sharded mode") {
  const Device device = open_cpu();
  for (const bool sharded : {false, true}) {
    together(device, 2, [&](Rank& r) -> Status {
      SyncOptions options{.warm_up_steps = 0, .target = sharded ? eager_shards() : eager_target()};
      GradientSync sync = TN_TRY(GradientSync::create(
          r.device, r.comm, arriving(parameters({100, 2'000, 30'000, 4})),
          {.fuse_grad_max_layers = 2, .nccl_comm_num = 2, .sharded = sharded}, std::move(options)));
      const Buffer own = TN_TRY(r.buffer(32'100 * sizeof(float)));
      TN_TRY(r.stream.fill(own));
      const tn_span large = TN_TRY(own.slice(0, 120'000))
      , small = TN_TRY(own.slice(120'000, 16));
      const auto step = [&]() -> Status {
        TN_TRY(sync.begin(r.stream));
        TN_TRY(sync.bring(3, small));
        TN_TRY(sync.bring(2, large));
        for (const uint32_t i : {1u, 0u}) TN_TRY(sync.ready(i));
        TN_TRY(sync.finish(r.stream));
        if (!sharded) return {};
        TN_TRY(sync.gather(r.stream));
        for (const uint32_t i : {0u, 1u, 2u, 3u}) TN_TRY(sync.await(r.stream, i));
        return {};
      };
      for (int i = 0; i < 50; ++i) TN_TRY(step());
      TN_TRY(r.stream.sync());
      const uint64_t made = TN_TRY(fewest_allocations(r.stream, step));
      return expect(made == 0, "50 steps allocated " + std::to_string(made) + " times");
    });
  }
}

TEST_CASE("allocations: the counter counts") {
  const uint64_t before = own_allocations;
  ::operator delete(
      ::operator new(1));  // called by name: a pair of new and delete may be left out by the compiler
  CHECK(own_allocations == before + 1);
}
