// SPDX-License-Identifier: Apache-2.0
// world.hpp: models, options and steps drawn at random.
//
// Invariant: ranks with equal generators draw equal worlds.
#pragma once

#include "model.hpp"

namespace overlap_test {

// What all ranks draw alike.
struct World {
  std::vector<Gradient> model{};
  OverlapOptions overlap{};
  SyncOptions options{};
  uint32_t steps = 1, passes = 1;
};

template <class Generator>
World draw_world(Generator& random) {
  constexpr DType dtypes[] = {f32, f32, f32, bf16, f64, f16};
  constexpr BucketRule rules[] = {BucketRule::automatic,  BucketRule::automatic, BucketRule::documents,
                                  BucketRule::per_tensor, BucketRule::ddp,       BucketRule::none,
                                  BucketRule::mg_wfbp,    BucketRule::paddle};
  const auto below = [&](uint64_t n) { return static_cast<uint32_t>(random() % n); };
  World w;
  const bool mixed = below(3) == 0;
  for (uint32_t i = 0, count = 1 + below(14); i < count; ++i)
    w.model.push_back({.name = "layer" + std::to_string(i / 2) + "." + std::to_string(i % 2),
                       .dtype = mixed ? dtypes[below(6)] : f32,
                       .elements = below(8) == 0 ? 1 : below(below(6) == 0 ? 300'000 : 3'000) + 1});
  if (below(2) == 0) w.model = arriving(std::move(w.model));
  w.overlap.mode = rules[below(std::size(rules))];
  w.overlap.fuse_grad_max_layers = below(5);
  w.overlap.nccl_comm_num = below(4);
  w.overlap.partition_mb = below(2);
  w.overlap.sync_nccl_allreduce = below(8) == 0;
  w.options.average = static_cast<Average>(below(2));
  w.options.warm_up_steps = below(3);
  w.options.measure_every = below(3);
  w.options.uneven_batches = below(2) == 0;
  w.options.target = eager_target(below(2) == 0 ? 10 : 1e5);
  w.options.target.flows = 1 + below(3);
  if (below(2) == 0) w.options.target.contention = {below(5) / 4.0, 1.0 + below(4), below(3) * 1e5};
  w.steps = 1 + below(4);
  w.passes = 1 + below(3);
  return w;
}

}  // namespace overlap_test
