// SPDX-License-Identifier: Apache-2.0
// exact.hpp: the cut of a row of gradients whose last bucket ends earliest, on one stream.
//
// f(j), the earliest end of the first j, is min over i of max(f(i), ready_j) + T(S_j - S_i). It takes O(L · K) steps for L
// gradients and a cost table of K lines, instead of O(L²), and nothing is lost:
//   - f rises with j, T falls with i. Of all i with f(i) <= ready_j the last is best: all would start at ready_j.
//   - For the others the value is f(i) + T(S_j - S_i). Where T is a line of slope b, that is least where f(i) - b · S_i is.
//     The i that one line serves are a window whose both ends only move on as j does, so a queue per line keeps its least.
#pragma once

#include "overlap/sequence.hpp"

#include <span>

namespace tenon::overlap {

// Of a bucket; 0: no limit. A gradient that alone is past the limit is alone.
struct Limits {
  uint64_t bytes = 0;
  uint32_t count = 0;
};

struct ExactCuts {
  Cuts cuts{};
  double end = 0;
};

// `ready` rises; `sums` has one entry more: the bytes before each, and of all. Among cuts that end as early, buckets are
// joined where `reserve` of their own time is left to spare; negative: none are.
// [any-thread; does not block; cannot fail]
ExactCuts exact_cuts(std::span<const double> ready, std::span<const uint64_t> sums, const CostTable& cost,
                     const Limits& limits, double reserve);

}  // namespace tenon::overlap
