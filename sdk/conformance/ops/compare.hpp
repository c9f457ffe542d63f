// SPDX-License-Identifier: Apache-2.0
// compare.hpp: whether an output is close enough to what it should be.
//
// An element may be off by
//   EXACT  nothing
//   ROUND  nothing from the exact result rounded once; where the reference tells of terms, half a ULP and a few roundings
//          of them
//   MATH   half a ULP of its type, a few of the type computed in, and the same of the terms that cancelled
//   SUM    half a ULP, and min(n, 4·√n) roundings of Σ|terms|: random rounding grows with √n, a lost term does not hide
// and, where the vendor declares a tolerance of its own, by as much more as it says;
// and over many elements the errors, in units of what is allowed, must not be near 1 on average: that is a bias.
// NaN meets NaN, infinity the same infinity; where a sum of terms leaves the range of the type computed in, anything goes.
// Invariant: the rules are symmetric in the plugin: nothing here knows who computed.
#pragma once

#include "conformance/judging.hpp"
#include "conformance/ops/meaning.hpp"

#include <optional>

namespace tenon::conform {

// What is wrong with an output, in words, or nothing. `subject` is the dtype the trial is about. What only `slack` lets
// pass is added to `eased`. [any-thread; does not block; may throw bad_alloc]
std::optional<std::string> compare(const Row& row, uint32_t subject, const Wanted& wanted, const Tensor& got,
                                   const Slack& slack = {}, Eased* eased = nullptr);

// What the vendor declares for `row` in `subject`. [any-thread; does not block; may throw bad_alloc]
Slack slack_of(const Judging& judging, const Row& row, uint32_t subject);

// How far element `value` may be from the reference, the vendor's slack apart. [any-thread; does not block; cannot fail]
double allowance(const Row& row, uint32_t subject, uint32_t dtype, double value, double magnitude,
                 double length);

}  // namespace tenon::conform
