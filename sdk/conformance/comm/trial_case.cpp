// SPDX-License-Identifier: Apache-2.0
// trial_case.cpp: rows of trials on ranks, and making a failing one smaller.
#include "conformance/comm/trial_case.hpp"

#include <algorithm>
#include <array>

namespace tenon::conform {

namespace {

constexpr uint32_t most_ranks = 5;
constexpr int most_attempts = 12;

// Runs one trial after another; `at` is left at the one that failed.
Status run_all(Context& t, uint32_t size, const std::vector<Exchange>& trials, size_t& at) {
  std::vector<size_t> reached(size, 0);
  Status said = as_threads(t, size, [&](Rank& rank) -> Status {
    for (const Exchange& trial : trials) {
      TN_TRY(rank.agree(perform(rank, rank.comm, rank.stream, trial)));
      ++reached[rank.rank];
    }
    return {};
  });
  at = *std::min_element(reached.begin(), reached.end());
  return said;
}

// What a single trial says on ranks of its own, without counting.
Status alone(Context& t, uint32_t size, const Exchange& trial) {
  Status said;
  const auto stories = t.aside(words(told(trial), " with ", size, " ranks"), [&] {
    size_t at = 0;
    said = run_all(t, size, {trial}, at);
  });
  return said;
}

// The smallest that fails as well: ranks first, then elements.
std::string smallest(Context& t, uint32_t size, Exchange trial, std::string story) {
  int left = most_attempts;
  const auto fails = [&](uint32_t fewer, const Exchange& candidate) {
    if (left-- <= 0) return false;
    const Status said = alone(t, fewer, candidate);
    if (said.code() != TN_INTERNAL)
      return false;  // another trouble than wrong numbers is no smaller form of it
    story = words("with ", fewer, " ranks, ", said.message());
    return true;
  };
  for (uint32_t fewer = std::max(1u, trial.root + 1); fewer < size; ++fewer) {
    if (!fails(fewer, trial)) continue;
    size = fewer;
    break;
  }
  for (const uint64_t count : {1u, 3u, 17u, 129u}) {
    Exchange candidate = trial;
    candidate.count = count;
    if (count < trial.count && fails(size, candidate)) break;
  }
  return story;
}

}  // namespace

std::vector<uint32_t> sizes_of(Context& t) {
  if (!t.quick()) return {1, 2, 3, 4, most_ranks};
  std::vector<uint32_t> out{2, most_ranks};
  out.push_back(std::array<uint32_t, 3>{1, 3, 4}[t.random().below(3)]);
  return out;
}

Status run_on_threads(Context& t, const std::vector<uint32_t>& sizes, const DrawTrials& draw) {
  for (const uint32_t size : sizes) {
    const std::vector<Exchange> trials = draw(size);
    size_t at = 0;
    Status said = run_all(t, size, trials, at);
    if (said.ok()) {
      t.check(true);
      continue;
    }
    if (said.code() != TN_INTERNAL || at == trials.size()) return said;
    return Status(TN_INTERNAL,
                  smallest(t, size, trials[at], words("with ", size, " ranks, ", said.message())));
  }
  return {};
}

Status run_on_processes(Context& t, const std::vector<uint32_t>& sizes, const DrawTrials& draw) {
  for (const uint32_t size : sizes) {
    const std::vector<Exchange> trials = draw(size);
    TN_TRY(as_processes(t, size, [&](Rank& rank) -> Status {
      for (const Exchange& trial : trials) TN_TRY(perform(rank, rank.comm, rank.stream, trial));
      return {};
    }));
  }
  return {};
}

}  // namespace tenon::conform
