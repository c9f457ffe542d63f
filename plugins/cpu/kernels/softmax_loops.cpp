// SPDX-License-Identifier: Apache-2.0
// softmax_loops.cpp: the loops, once, for every type and instruction set.
//
// Invariant: terms are computed by a loop that the compiler vectorises, and summed in lanes.
#include "softmax_loops.hpp"

#include "exp.hpp"
#include "lanes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::cpu {
namespace {

template <class T, uint32_t bytes>
TENON_CPU_LOOP T greatest(const T* x, uint64_t n) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  Lanes<T, bytes> tops[4], v;
  for (Lanes<T, bytes>& top : tops) top.set(lowest);
  T rest = lowest;
  sweep<T>(
      n, [&](uint64_t i, int k) __attribute__((always_inline)) { v.load(x + i), tops[k].raise(v); },
      [&](uint64_t i) __attribute__((always_inline)) { rest = x[i] > rest ? x[i] : rest; });
  for (int k = 1; k < 4; ++k) tops[0].raise(tops[k]);
  const T top = tops[0].greatest();
  return top > rest ? top : rest;
}

template <class T, uint32_t bytes>
TENON_CPU_LOOP double sum(const T* x, uint64_t n) {
  Lanes<T, bytes> sums[4] = {}, v;
  T rest = 0;
  sweep<T>(
      n, [&](uint64_t i, int k) __attribute__((always_inline)) { v.load(x + i), sums[k] += v; },
      [&](uint64_t i) __attribute__((always_inline)) { rest += x[i]; });
  return static_cast<double>(total(sums) + rest);
}

// No here: `terms` may be x.
template <class T, uint32_t bytes>
TENON_CPU_LOOP double exponentials(T* terms, const T* x, T shift, uint64_t n) {
  double all = 0;
  for (uint64_t done = 0; done < n; done += softmax_stretch) {
    const uint64_t now = n - done < softmax_stretch ? n - done : softmax_stretch;
#pragma omp simd
    for (uint64_t i = 0; i < now; ++i) terms[done + i] = fast_exp_of_negative(x[done + i] - shift);
    all += sum<T, bytes>(terms + done, now);
  }
  return all;
}

template <class T, uint32_t bytes>
TENON_CPU_LOOP double sum_of_exponentials(const T* x, T shift, uint64_t n) {
  alignas(64) T terms[softmax_stretch];
  double all = 0;
  for (uint64_t done = 0; done < n; done += softmax_stretch) {
    const uint64_t now = n - done < softmax_stretch ? n - done : softmax_stretch;
#pragma omp simd
    for (uint64_t i = 0; i < now; ++i) terms[i] = fast_exp_of_negative(x[done + i] - shift);
    all += sum<T, bytes>(terms, now);
  }
  return all;
}

template <class T>
TENON_CPU_LOOP void scale(T* x, T factor, uint64_t n) {
#pragma omp simd
  for (uint64_t i = 0; i < n; ++i) x[i] *= factor;
}

template <class T>
TENON_CPU_LOOP void shift(T* y, const T* x, T shift, T level, uint64_t n) {
#pragma omp simd
  for (uint64_t i = 0; i < n; ++i) y[i] = (x[i] - shift) - level;
}

template <class T, uint32_t bytes>
TENON_CPU_LOOP double dot(const T* a, const T* b, uint64_t n) {
  double all = 0;
  for (uint64_t done = 0; done < n; done += softmax_stretch) {
    const uint64_t now = n - done < softmax_stretch ? n - done : softmax_stretch;
    Lanes<T, bytes> sums[4] = {}, v, w;
    T rest = 0;
    sweep<T>(
        now,
        [&](uint64_t i, int k) __attribute__((always_inline)) {
          v.load(a + done + i);
          w.load(b + done + i);
          sums[k].add_product(v, w);
        },
        [&](uint64_t i) __attribute__((always_inline)) { rest += a[done + i] * b[done + i]; });
    all += static_cast<double>(total(sums) + rest);
  }
  return all;
}

template <class T>
TENON_CPU_LOOP void gradient(T* dx, const T* dy, const T* y, T inner, uint64_t n) {
#pragma omp simd
  for (uint64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - inner);
}

template <class T>
TENON_CPU_LOOP void shares(T* dx, const T* x, T shift, T factor, uint64_t n) {
#pragma omp simd
  for (uint64_t i = 0; i < n; ++i) dx[i] = factor * fast_exp_of_negative(x[i] - shift);
}

template <class T>
SoftmaxLoops<T> softmax_loops_of(Isa of) noexcept {
  return {
      widest<greatest<T, 64>, greatest<T, 32>, greatest<T, 16>>(of),
      widest<exponentials<T, 64>, exponentials<T, 32>, exponentials<T, 16>>(of),
      widest<sum_of_exponentials<T, 64>, sum_of_exponentials<T, 32>, sum_of_exponentials<T, 16>>(of),
      widest<scale<T>>(of),
      widest<shift<T>>(of),
      widest<dot<T, 64>, dot<T, 32>, dot<T, 16>>(of),
      widest<gradient<T>>(of),
      widest<shares<T>>(of),
  };
}

}  // namespace

template <class T>
const SoftmaxLoops<T>& softmax_loops() noexcept {
  return widest_table<softmax_loops_of<T>>();
}

template <class T>
LogSum log_sum(const SoftmaxLoops<T>& loops, T* terms, const T* x, uint64_t n) {
  const T top = loops.greatest(x, n);
  const double sum =
      terms != nullptr ? loops.exponentials(terms, x, top, n) : loops.sum_of_exponentials(x, top, n);
  return {static_cast<double>(top), std::isinf(top) ? 1 : sum};
}

template const SoftmaxLoops<float>& softmax_loops<float>() noexcept;
template const SoftmaxLoops<double>& softmax_loops<double>() noexcept;
template LogSum log_sum<float>(const SoftmaxLoops<float>& loops, float* terms, const float* x, uint64_t n);
template LogSum log_sum<double>(const SoftmaxLoops<double>& loops, double* terms, const double* x,
                                uint64_t n);

}  // namespace tenon::cpu
