// SPDX-License-Identifier: Apache-2.0
// trial_case.hpp: a case made of trials, from the first to its verdict.
//
// Invariant: a trial that fails among threads is told with the fewest ranks and the smallest count that fail too.
#pragma once

#include "conformance/comm/trial.hpp"

#include <functional>

namespace tenon::conform {

// Numbers of ranks: the small ones and a prime. [case's thread]
std::vector<uint32_t> sizes_of(Context& t);
// Draws the trials of one number of ranks.
using DrawTrials = std::function<std::vector<Exchange>(uint32_t size)>;
// Runs them with each number of ranks, as threads. [case's thread; blocks; may fail]
Status run_on_threads(Context& t, const std::vector<uint32_t>& sizes, const DrawTrials& draw);
// Runs them as processes. [case's thread; blocks; may fail]
Status run_on_processes(Context& t, const std::vector<uint32_t>& sizes, const DrawTrials& draw);

}  // namespace tenon::conform
