// SPDX-License-Identifier: Apache-2.0
// checks.hpp: what a plan can be made of, and what becomes of options that cannot hold.
#pragma once

#include <tenon/overlap.hpp>

#include <vector>

namespace tenon::overlap {

// Of a target.
inline constexpr uint32_t most_streams = 64;

// TN_INVALID naming the gradient, figure or option that cannot be.
Status check(const StepProfile& step, const CommTarget& target, const OverlapOptions& options);

// The options as they hold for `target`, and a note for each that was asked for and does not.
OverlapOptions effective(const CommTarget& target, OverlapOptions options,
                         std::vector<CommPlan::Note>& notes);

}  // namespace tenon::overlap
