// SPDX-License-Identifier: Apache-2.0
// lanes.hpp: sums and maxima over a run of numbers, in a fixed number of lanes.
//
// Lanes are 64 bytes whatever registers the processor has, in vectors of the compiler as wide as a register: one that a compiler has to
// split lives in memory, and is compared element by element.
// Invariant: the order of additions depends on the count alone.
#pragma once

#include "wide.hpp"

#include <cstring>
#include <utility>

namespace tenon::cpu {

template <class T>
inline constexpr uint64_t lane_count = 64 / sizeof(T);

// 64 bytes in registers of `bytes`. Lanes travel by reference: by value their calling convention would depend on the instruction set.
template <class T, uint32_t bytes>
class Lanes {
 public:
  typedef T Part __attribute__((vector_size(bytes)));
  static constexpr size_t parts = 64 / bytes, width = bytes / sizeof(T);

  TENON_CPU_LOOP void set(T value) {
    each([&](size_t i) __attribute__((always_inline)) { part_[i] = Part{} + value; });
  }
  TENON_CPU_LOOP void load(const T* from) { std::memcpy(&part_, from, sizeof part_); }
  TENON_CPU_LOOP void store(T* to) const { std::memcpy(to, &part_, sizeof part_); }

  TENON_CPU_LOOP void operator+=(const Lanes& b) {
    each([&](size_t i) __attribute__((always_inline)) { part_[i] += b.part_[i]; });
  }
  TENON_CPU_LOOP void operator*=(const Lanes& b) {
    each([&](size_t i) __attribute__((always_inline)) { part_[i] *= b.part_[i]; });
  }
  TENON_CPU_LOOP void operator-=(T b) {
    each([&](size_t i) __attribute__((always_inline)) { part_[i] -= b; });
  }
  TENON_CPU_LOOP void operator*=(T b) {
    each([&](size_t i) __attribute__((always_inline)) { part_[i] *= b; });
  }
  TENON_CPU_LOOP void add_product(const Lanes& a, const Lanes& b) {
    each([&](size_t i) __attribute__((always_inline)) { part_[i] += a.part_[i] * b.part_[i]; });
  }
  // The greater of each two; a NaN here stays, one in `b` does not come in.
  TENON_CPU_LOOP void raise(const Lanes& b) {
    each([&](size_t i) __attribute__((always_inline)) { raise_part(part_[i], b.part_[i]); });
  }

  // The lanes folded in halves.
  TENON_CPU_LOOP T total() const {
    return folded([](Part & a, const Part& b) __attribute__((always_inline)) { a += b; });
  }
  TENON_CPU_LOOP T greatest() const {
    return folded([](Part & a, const Part& b) __attribute__((always_inline)) { raise_part(a, b); });
  }

 private:
  // Nothing but constants names a part, so that each stays in a register.
  template <class Do>
  TENON_CPU_LOOP static void each(Do todo) {
    numbered(todo, std::make_index_sequence<parts>());
  }
  template <class Do, size_t... i>
  TENON_CPU_LOOP static void numbered(Do todo, std::index_sequence<i...>) {
    (todo(i), ...);
  }
  TENON_CPU_LOOP static void raise_part(Part& a, const Part& b) { a = b > a ? b : a; }

  template <class Join>
  TENON_CPU_LOOP T folded(Join join) const {
    Lanes low = *this;
    if constexpr (parts > 2)
      numbered(
          [&](size_t i) __attribute__((always_inline)) { join(low.part_[i], low.part_[i + 2]); },
          std::make_index_sequence<2>());
    if constexpr (parts > 1) join(low.part_[0], low.part_[1]);
    return within<width / 2>(low.part_[0], join);
  }
  template <size_t half, class Join>
  TENON_CPU_LOOP static T within(Part& low, Join join) {
    Part high;
    upper<half>(high, low, std::make_index_sequence<width>());
    join(low, high);
    if constexpr (half > 1)
      return within<half / 2>(low, join);
    else
      return low[0];
  }
  // The upper half of the first 2·half lanes, where the lower one was.
  template <size_t half, size_t... i>
  TENON_CPU_LOOP static void upper(Part& to, const Part& from, std::index_sequence<i...>) {
    to = __builtin_shufflevector(from, from, static_cast<int>((i + half) % width)...);
  }

  Part part_[parts];
};

// Four accumulators as one.
template <class T, uint32_t bytes>
TENON_CPU_LOOP T total(Lanes<T, bytes> (&sums)[4]) {
  sums[0] += sums[1];
  sums[2] += sums[3];
  sums[0] += sums[2];
  return sums[0].total();
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
