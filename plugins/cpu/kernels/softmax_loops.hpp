// SPDX-License-Identifier: Apache-2.0
// softmax_loops.hpp: the arithmetic of softmax and its loss on runs of f32 or f64, in the widest instruction set that may be
// used.
//
// Invariant: a loop's order of operations depends on the count alone.
#pragma once

#include <cstdint>

namespace tenon::cpu {

template <class T>
struct SoftmaxLoops {
  // The greatest, -∞ of nothing. A NaN may be passed over: it shows in every sum of exponentials.
  T (*greatest)(const T* x, uint64_t n);
  // Σe^(x − shift), and the terms themselves in `terms`, which may be x.
  double (*exponentials)(T* terms, const T* x, T shift, uint64_t n);
  // The same of the terms alone.
  double (*sum_of_exponentials)(const T* x, T shift, uint64_t n);
  // x ·= factor.
  void (*scale)(T* x, T factor, uint64_t n);
  // y = (x − shift) − level.
  void (*shift)(T* y, const T* x, T shift, T level, uint64_t n);
  double (*dot)(const T* a, const T* b, uint64_t n);
  // dx = y·(dy − inner).
  void (*gradient)(T* dx, const T* dy, const T* y, T inner, uint64_t n);
  // dx = factor·e^(x − shift).
  void (*shares)(T* dx, const T* x, T shift, T factor, uint64_t n);
};

// T: float or double. [any-thread; does not block; cannot fail]
template <class T>
const SoftmaxLoops<T>& softmax_loops() noexcept;

// Joined from stretches of this many elements: sums leave T often enough, and what is read twice stays in L1.
inline constexpr uint64_t softmax_stretch = 1024;

// The greatest of a row, and Σe^(x − greatest). Where the greatest is infinite the sum is 1, so that e^(x − greatest) is
// the limit itself: 0, or NaN.
struct LogSum {
  double greatest = 0, sum = 1;
};
// Leaves e^(x − greatest) in `terms` unless that is nullptr.
template <class T>
LogSum log_sum(const SoftmaxLoops<T>& loops, T* terms, const T* x, uint64_t n);

}  // namespace tenon::cpu
