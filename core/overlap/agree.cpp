// SPDX-License-Identifier: Apache-2.0
// agree.cpp: comparing plans across ranks before the first bucket of one is launched.
//
// Invariant: what is decided here follows from what all ranks received alike, so all of them return the same.
#include "overlap/agree.hpp"

#include "base/sha256.hpp"
#include "base/text.hpp"

#include <algorithm>

namespace tenon::overlap {
namespace {

// A line for each, so that the one that differs is told alone. First what is told before a plan's own terms, then what after.
std::pair<std::string, std::string> settings(const SyncOptions& options, Basis basis) {
  return {"averaging " + std::to_string(static_cast<uint32_t>(options.average)) + "\nwarm_up_steps " +
              std::to_string(options.warm_up_steps) + "\nmeasure_every " +
              std::to_string(options.measure_every) +
              (options.hook.name.empty() ? "\nno hook" : "\nhook " + base::quoted(options.hook.name)) +
              (basis.costs_given ? "\ncosts given" : "\ncosts measured") +
              (basis.grouped ? "\nroutes through groups" : "\nno routes through groups") +
              (options.sums ? "\nsums" : "\nno sums") + "\nfull_batch " + std::to_string(options.full_batch) +
              "\n" + options.rules,
          "streams to choose from: " + std::to_string(basis.most_lanes)};
}

// A number for what the plan's hash does not cover.
uint64_t word_of(const std::string& text) {
  const base::Digest digest = base::sha256(text);
  uint64_t out = 0;
  for (size_t i = 0; i < sizeof out; ++i) out = out << 8 | digest[i];
  return out;
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
  const auto [before, behind] = settings(options, basis);
  std::string terms = plan.ok() ? before + '\n' + plan->terms() + '\n' + behind
                                : "no plan, because " + std::string(plan.message());
  constexpr size_t words = 3;
  const uint64_t own[words] = {plan.ok() ? plan->hash() : 0, word_of(before + behind), terms.size()};
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
