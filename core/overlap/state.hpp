// SPDX-License-Identifier: Apache-2.0
// state.hpp: what a CommPlan holds.
#pragma once

#include <tenon/overlap.hpp>

#include <string>
#include <vector>

namespace tenon {

struct CommPlan::State {
  std::string target{};
  uint32_t ranks = 1, streams = 1, ranks_per_group = 0;
  uint64_t alignment = 0;
  Contention contention{};
  Division division{};
  StepProfile step{};
  OverlapOptions options{};
  std::vector<Bucket> buckets{};
  std::vector<uint32_t> gathers{};
  Arena arena{};
  CommTail tail{};
  CommPrediction prediction{};
  std::vector<Note> notes{};
  uint64_t hash = 0;
};

namespace overlap {
// Fills in the hash, the last thing that is done to a plan.
void seal(CommPlan::State& state);
}  // namespace overlap

}  // namespace tenon
