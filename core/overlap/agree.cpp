// SPDX-License-Identifier: Apache-2.0
// agree.cpp: comparing plans across ranks before the first bucket of one is launched.
//
// Invariant: what is decided here follows from what all ranks received alike, so all of them return the same.
#include "overlap/agree.hpp"

#include "base/text.hpp"

#include <algorithm>

namespace tenon::overlap {
namespace {

std::string settings(const SyncOptions& options, Basis basis) {
  return "averaging " + std::to_string(static_cast<uint32_t>(options.average)) + ", warm_up_steps " +
         std::to_string(options.warm_up_steps) + ", measure_every " + std::to_string(options.measure_every) +
         (options.hook.name.empty() ? ", no hook" : ", hook " + base::quoted(options.hook.name)) +
         (basis.costs_given ? ", costs given" : ", costs measured") +
         (basis.grouped ? ", routes through groups" : ", no routes through groups") +
         (options.sums ? ", sums" : ", no sums") + ", full_batch " + std::to_string(options.full_batch);
}

// A number for what the plan's hash does not cover.
uint64_t settings_word(const SyncOptions& options, Basis basis) {
  uint64_t hook = 0;
  for (const char c : options.hook.name) hook = hook * 131 + static_cast<unsigned char>(c) + 1;
  return hook << 8 ^ uint64_t { options.warm_up_steps } << 32 ^ uint64_t { options.measure_every } << 8 ^
         options.full_batch * 0x9e3779b97f4a7c15 ^ static_cast<uint64_t>(options.average) << 1 ^
         uint64_t { basis.most_lanes } << 56 ^ (options.sums ? 16u : 0u) ^ (basis.grouped ? 8u : 0u) ^
         (basis.costs_given ? 1u : 0u);
}

// The first line that only one of them has, with what the other has in its place.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  const std::vector<std::string> mine = base::split(a, '\n'), theirs = base::split(b, '\n');
  for (size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
    const std::string here = i < mine.size() ? mine[i] : "", there = i < theirs.size() ? theirs[i] : "";
    if (here != there) return {here.empty() ? "nothing more" : here, there.empty() ? "nothing more" : there};
  }
  return {"what is hidden", "what is hidden"};
}

}  // namespace

Result<CommPlan> agree(Device& device, Lane& lane, Result<CommPlan> plan, const SyncOptions& options,
                       Basis basis) {
  std::string terms = plan.ok() ? settings(options, basis) + "\n" + plan->terms() +
                                      "\nstreams to choose from: " + std::to_string(basis.most_lanes)
                                : "no plan, because " + std::string(plan.message());
  constexpr size_t words = 3;
  const uint64_t own[words] = {plan.ok() ? plan->hash() : 0, settings_word(options, basis), terms.size()};
  const std::vector<uint64_t> all = TN_TRY(everyones(device, lane, own));
  const auto differs = [&](uint32_t rank) {
    return all[rank * words] != all[0] || all[rank * words + 1] != all[1];
  };
  uint32_t odd = 0;
  while (odd < lane.comm.size() && !differs(odd)) ++odd;
  if (odd == lane.comm.size()) return plan;
  const std::string first = TN_TRY(from_root(device, lane, terms, all[2], 0));
  const std::string other = TN_TRY(from_root(device, lane, std::move(terms), all[odd * words + 2], odd));
  if (!plan.ok()) return plan;
  const auto [here, there] = first_difference(first, other);
  return Status(TN_MISMATCH, "communicator '" + lane.comm.name() + "': rank 0 has " + base::printable(here) +
                                 ", rank " + std::to_string(odd) + " has " + base::printable(there) +
                                 ": all ranks must bring the same parameters and options");
}

}  // namespace tenon::overlap
