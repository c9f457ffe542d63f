// SPDX-License-Identifier: Apache-2.0
// agree.hpp: whether all ranks are about to do the same.
#pragma once

#include "overlap/lane.hpp"

#include <tenon/gradient_sync.hpp>

namespace tenon::overlap {

// What plans are made from, beside what they and the options say.
struct Basis {
  bool costs_given = false;  // not measured
  bool grouped = false;      // routes through groups of ranks are looked for
  uint32_t most_lanes = 1;   // up to which it is measured what several streams carry; 1: it is not
};

// The plan, when every rank has it. TN_MISMATCH on all ranks, naming the first rank that differs from rank 0 and the first
// term in which they do; a rank without a plan returns its own failure, and the others what it says. Compares hashes; terms are
// only sent when these differ. [all ranks; blocks; may fail]
Result<CommPlan> agree(Device& device, Lane& lane, Result<CommPlan> plan, const SyncOptions& options,
                       Basis basis);

}  // namespace tenon::overlap
