// SPDX-License-Identifier: Apache-2.0
// pool_loops.cpp: see pool_loops.hpp.
//
// Invariant: every loop is one that compilers make vectors of: one selection, and a step that is known for the usual ones.
#include "pool_loops.hpp"

#include "wide.hpp"

#include <algorithm>
#include <limits>

namespace tenon::cpu {
namespace {

// x > best, or x is the first NaN: whatever is no NaN is at most infinity.
template <class S>
TENON_CPU_LOOP bool beats(S x, S best) {
  return !(x <= best) & (best <= std::numeric_limits<S>::infinity());
}

template <class S>
TENON_CPU_LOOP void greatest_of(const Taps<S>& taps, S* best, uint64_t n) {
  std::fill_n(best, n, -std::numeric_limits<S>::infinity());
  for (uint32_t t = 0; t < taps.count; ++t) {
    const S* const x = taps.from[t];
#pragma omp simd
    for (uint64_t i = 0; i < n; ++i) best[i] = beats(x[i], best[i]) ? x[i] : best[i];
  }
}

template <class S>
TENON_CPU_LOOP void mean_of(const Taps<S>& taps, S* mean, S share, uint64_t n) {
  std::fill_n(mean, n, S(0));
  for (uint32_t t = 0; t < taps.count; ++t) {
    const S* const x = taps.from[t];
#pragma omp simd
    for (uint64_t i = 0; i < n; ++i) mean[i] += x[i];
  }
#pragma omp simd
  for (uint64_t i = 0; i < n; ++i) mean[i] /= share;
}

// A sum of numbers that began as +0 is never −0, so adding +0 to it changes nothing.
template <class S>
TENON_CPU_LOOP void give_to_greatest(const Taps<S>& taps, const S* dy, uint64_t n) {
  S best[Taps<S>::most_channels],
      where[Taps<S>::most_channels];  // numbers of S alone, so that lanes are alike
  std::copy_n(taps.from[0], n, best);
  std::fill_n(where, n, S(0));
  for (uint32_t t = 1; t < taps.count; ++t) {
    const S* const x = taps.from[t];
    const S tap = static_cast<S>(t);
#pragma omp simd
    for (uint64_t i = 0; i < n; ++i) where[i] = beats(x[i], best[i]) ? tap : where[i];
#pragma omp simd
    for (uint64_t i = 0; i < n; ++i) best[i] = beats(x[i], best[i]) ? x[i] : best[i];
  }
  for (uint32_t t = 0; t < taps.count; ++t) {
    S* const sum = taps.to[t];
    const S tap = static_cast<S>(t);
#pragma omp simd
    for (uint64_t i = 0; i < n; ++i) sum[i] += where[i] == tap ? dy[i] : S(0);
  }
}

template <class S>
TENON_CPU_LOOP void give_to_all(const Taps<S>& taps, const S* dy, S share, uint64_t n) {
  for (uint32_t t = 0; t < taps.count; ++t) {
    S* const sum = taps.to[t];
#pragma omp simd
    for (uint64_t i = 0; i < n; ++i) sum[i] += dy[i] / share;
  }
}

// Calls loop(step) with a step that the compiler knows where it is a usual one.
template <class Loop>
TENON_CPU_LOOP void by_step(int64_t step, Loop loop) {
  if (step == 1)
    loop(std::integral_constant<int64_t, 1>{});
  else if (step == 2)
    loop(std::integral_constant<int64_t, 2>{});
  else
    loop(step);
}

template <class S>
TENON_CPU_LOOP void fold_greatest(S* best, const S* x, int64_t step, int64_t n) {
  by_step(
      step, [=](auto s) __attribute__((always_inline)) {
#pragma omp simd
        for (int64_t q = 0; q < n; ++q) best[q] = beats(x[q * s], best[q]) ? x[q * s] : best[q];
      });
}

template <class S>
TENON_CPU_LOOP void find_greatest(S* best, S* where, S tap, const S* x, int64_t step, int64_t n) {
  by_step(
      step, [=](auto s) __attribute__((always_inline)) {
#pragma omp simd
        for (int64_t q = 0; q < n; ++q) where[q] = beats(x[q * s], best[q]) ? tap : where[q];
      });
  fold_greatest(best, x, step, n);
}

template <class S>
TENON_CPU_LOOP void fold_sum(S* sum, const S* x, int64_t step, int64_t n) {
  by_step(
      step, [=](auto s) __attribute__((always_inline)) {
#pragma omp simd
        for (int64_t q = 0; q < n; ++q) sum[q] += x[q * s];
      });
}

template <class S>
TENON_CPU_LOOP void give(S* sums, const S* part, int64_t step, int64_t n) {
  by_step(
      step, [=](auto s) __attribute__((always_inline)) {
#pragma omp simd
        for (int64_t q = 0; q < n; ++q) sums[q * s] += part[q];
      });
}

template <class S>
PoolLoops<S> pool_loops_of(Isa of) noexcept {
  return {
      widest<greatest_of<S>>(of), widest<mean_of<S>>(of),       widest<give_to_greatest<S>>(of),
      widest<give_to_all<S>>(of), widest<fold_greatest<S>>(of), widest<find_greatest<S>>(of),
      widest<fold_sum<S>>(of),    widest<give<S>>(of),
  };
}

}  // namespace

template <class S>
const PoolLoops<S>& pool_loops() noexcept {
  return widest_table<pool_loops_of<S>>();
}

template const PoolLoops<float>& pool_loops<float>() noexcept;
template const PoolLoops<double>& pool_loops<double>() noexcept;

}  // namespace tenon::cpu
