// SPDX-License-Identifier: Apache-2.0
// schedule.hpp: runs batches of cases in worker processes and names what ends one.
//
// Invariant: every case handed in comes out exactly once through `done`; after a crash, a hang or an exit in the middle
// the rest of the batch goes on in a new process.
#pragma once

#include "conformance/case.hpp"
#include "conformance/runner.hpp"

#include <deque>
#include <functional>
#include <vector>

namespace tenon::conform {

// Cases that share a process, in order.
struct Batch {
  uint32_t round = 0;
  std::deque<const Case*> cases{};
};

// The result that `wanted` has before it ran. [any-thread; does not block; cannot fail]
CaseResult not_run_yet(const Case& wanted, uint32_t round);
// Names of cases that one request carries, in bytes: who has more gets several processes, one after another or, with
// --jobs, beside each other.
inline constexpr size_t most_name_bytes = 16 * 1024;

// Cases by group and round, `together` groups to a process; those that want to be alone, alone.
// [any-thread; does not block; cannot fail]
std::deque<Batch> batches(const std::vector<const Case*>& cases, uint32_t round, uint32_t together);

struct Events {
  std::function<void(const std::string& name)> began{};
  std::function<void(CaseResult result)> done{};
  std::function<void(Description found)> described{};
  std::function<void(const std::string& why)> not_described{};
};

// Runs all batches with at most options.jobs workers at once; the first batch's worker describes the plugin when
// `describe`. TN_INTERNAL when no worker can be started. [one thread; blocks; may fail]
Status run_batches(const Options& options, std::deque<Batch> queue, bool describe, const Events& events);

}  // namespace tenon::conform
