// SPDX-License-Identifier: Apache-2.0
// lanes.hpp: sums and maxima over a run of numbers, in a fixed number of lanes.
//
// Lanes are the compiler's own vectors: 64 bytes, whatever registers the processor has.
// Invariant: the order of additions depends on the count alone.
#pragma once

#include "wide.hpp"

#include <cstring>
#include <utility>

namespace tenon::cpu {

template <class T>
struct LanesOf;
template <>
struct LanesOf<float> {
  typedef float Type __attribute__((vector_size(64)));
};
template <>
struct LanesOf<double> {
  typedef double Type __attribute__((vector_size(64)));
};
template <class T>
using Lanes = typename LanesOf<T>::Type;
template <class T>
inline constexpr uint64_t lane_count = 64 / sizeof(T);

// Lanes travel by reference: by value their calling convention would depend on the instruction set.
template <class T>
TENON_CPU_LOOP void load(Lanes<T>& lanes, const T* from) {
  std::memcpy(&lanes, from, sizeof lanes);
}
template <class T>
TENON_CPU_LOOP void store(T* to, const Lanes<T>& lanes) {
  std::memcpy(to, &lanes, sizeof lanes);
}

// The upper half of the first 2·half lanes, where the lower one was.
template <class T, size_t half, size_t... i>
TENON_CPU_LOOP void lower(Lanes<T>& lanes, const Lanes<T>& from, std::index_sequence<i...>) {
  lanes = __builtin_shufflevector(from, from, static_cast<int>((i + half) % lane_count<T>)...);
}
// The lanes folded in halves by `join`, which takes one after the other in its first operand.
template <class T, size_t half = lane_count<T> / 2, class Join>
TENON_CPU_LOOP T folded(const Lanes<T>& lanes, Join join) {
  Lanes<T> low = lanes, high;
  lower<T, half>(high, lanes, std::make_index_sequence<lane_count<T>>());
  join(low, high);
  if constexpr (half > 1)
    return folded<T, half / 2>(low, join);
  else
    return low[0];
}
template <class T>
TENON_CPU_LOOP T total(const Lanes<T>& lanes) {
  return folded<T>(
      lanes, [](Lanes<T> & a, const Lanes<T>& b) __attribute__((always_inline)) { a += b; });
}

// Calls block(i, k) for each full set of lanes at i, k = 0 … 3 in turn (so that four accumulators hide an addition's
// latency), then single(i) for what is left.
template <class T, class Block, class Single>
TENON_CPU_LOOP void sweep(uint64_t n, Block block, Single single) {
  constexpr uint64_t w = lane_count<T>;
  uint64_t i = 0;
  for (; i + 4 * w <= n; i += 4 * w) {
    block(i, 0);
    block(i + w, 1);
    block(i + 2 * w, 2);
    block(i + 3 * w, 3);
  }
  for (; i + w <= n; i += w) block(i, 0);
  for (; i < n; ++i) single(i);
}

}  // namespace tenon::cpu
