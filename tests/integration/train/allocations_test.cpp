// SPDX-License-Identifier: Apache-2.0
// allocations_test.cpp: once it runs, a step without fetches allocates nothing, and its launches lock nothing: every operator new
// and every mutex of a rank's thread is counted.
#include "integration/overlap/model.hpp"
#include "integration/train/model.hpp"
#include "support/counted_locks.hpp"
#include "support/fewest_allocations.hpp"

#include <doctest/doctest.h>

using namespace train_test;
using overlap_test::eager_target;
using overlap_test::expect;
using overlap_test::Rank;
using overlap_test::together;

TEST_CASE("allocations: a step allocates nothing, of one rank and of two") {
  struct Case {
    uint32_t size;
    bool waits;  // updates for all gradients
    bool sharded = false;
  };
  for (const auto [size, waits, sharded] :
       {Case{1, true}, Case{2, true}, Case{2, false}, Case{2, true, true}}) {
    together(size, [size = size, waits = waits, sharded = sharded](Rank& r) -> Status {
      Strategy strategy;
      strategy.sharded = sharded;
      strategy.warm_up_steps = 1;
      strategy.uneven_batches = strategy.fuse_all_optimizer_ops = waits;
      if (!waits) strategy.bucket_mode = BucketRule::per_tensor;
      TrainingOptions options = strategy.training();
      options.optimizer = {.op = Op::adam};
      options.ranks = size;
      const TrainingGraph step = TN_TRY(training_graph(network(4), "loss", options));
      Executor executor = TN_TRY(Executor::open(step, r.device, strategy, size > 1 ? r.comm : Communicator(),
                                                {.target = eager_target()}));
      TN_TRY(begin(executor, 1));
      const Samples given = samples(4, 1);
      const Binding inputs[] = {fed("x", given.x), fed("y", given.y)};
      const auto run = [&]() -> Status {
        TN_TRY(executor.run(inputs));
        return {};
      };
      for (int i = 0; i < 50; ++i) TN_TRY(run());
      TN_TRY(executor.sync());
      const uint64_t made = TN_TRY(tenon::test::fewest_allocations(executor.stream(), run));
      return expect(made == 0, "50 steps allocated " + std::to_string(made) + " times");
    });
  }
}

namespace {

// What `size` ranks lock to enqueue a step: at least, as one that waits for others or its turn of the inputs may lock.
void check_locks(uint32_t size, const Strategy& strategy) {
  together(size, [&](Rank& r) -> Status {
    TrainingOptions options = strategy.training();
    options.optimizer = {.op = Op::adam};
    options.ranks = size;
    const TrainingGraph step = TN_TRY(training_graph(network(4), "loss", options));
    Executor executor = TN_TRY(Executor::open(step, r.device, strategy, size > 1 ? r.comm : Communicator(),
                                              {.target = eager_target()}));
    TN_TRY(begin(executor, 1));
    const Samples given = samples(4, 1);
    const Binding inputs[] = {fed("x", given.x), fed("y", given.y)};
    uint64_t fewest = UINT64_MAX;
    for (int time = 0; time < 20; ++time) {
      TN_TRY(executor.sync());
      const uint64_t before = tenon::test::own_locks;
      TN_TRY(executor.run(inputs));
      fewest = std::min(fewest, tenon::test::own_locks - before);
    }
    return expect(fewest == 0 && tenon::test::own_locks > 0,
                  "a step locked " + std::to_string(fewest) + " times, all " +
                      std::to_string(tenon::test::own_locks) + " times");
  });
}

}  // namespace

TEST_CASE("allocations: the launches of a step lock nothing, of one rank and of two") {
  Strategy strategy;
  strategy.num_iteration_per_drop_scope = 1'000'000;  // giving memory back locks the pool
  check_locks(1, strategy);
  strategy.warm_up_steps = 1;
  check_locks(2, strategy);
  strategy.bucket_mode = BucketRule::per_tensor;
  check_locks(2, strategy);
  strategy.sharded = true;
  check_locks(2, strategy);
}
