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

template <class T>
TENON_CPU_LOOP T greatest(const T* x, uint64_t n) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  Lanes<T> tops[4], v;
  for (Lanes<T>& top : tops) top = Lanes<T>{} + lowest;
  T rest = lowest;
  sweep<T>(
      n,
      [&](uint64_t i, int k) __attribute__((always_inline)) {
        load<T>(v, x + i);
        tops[k] = v > tops[k] ? v : tops[k];
      },
      [&](uint64_t i) __attribute__((always_inline)) { rest = x[i] > rest ? x[i] : rest; });
  for (int k = 1; k < 4; ++k) tops[0] = tops[k] > tops[0] ? tops[k] : tops[0];
  const T top = folded<T>(
      tops[0], [](Lanes<T> & a, const Lanes<T>& b) __attribute__((always_inline)) { a = a > b ? a : b; });
  return top > rest ? top : rest;
}

template <class T>
TENON_CPU_LOOP double sum(const T* x, uint64_t n) {
  Lanes<T> sums[4] = {}, v;
  T rest = 0;
  sweep<T>(
      n, [&](uint64_t i, int k) __attribute__((always_inline)) { load<T>(v, x + i), sums[k] += v; },
      [&](uint64_t i) __attribute__((always_inline)) { rest += x[i]; });
  sums[0] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return static_cast<double>(total<T>(sums[0]) + rest);
}

// No here: `terms` may be x.
template <class T>
TENON_CPU_LOOP double exponentials(T* terms, const T* x, T shift, uint64_t n) {
  double all = 0;
  for (uint64_t done = 0; done < n; done += softmax_stretch) {
    const uint64_t now = n - done < softmax_stretch ? n - done : softmax_stretch;
#pragma omp simd
    for (uint64_t i = 0; i < now; ++i) terms[done + i] = fast_exp_of_negative(x[done + i] - shift);
    all += sum(terms + done, now);
  }
  return all;
}

template <class T>
TENON_CPU_LOOP double sum_of_exponentials(const T* x, T shift, uint64_t n) {
  alignas(64) T terms[softmax_stretch];
  double all = 0;
  for (uint64_t done = 0; done < n; done += softmax_stretch) {
    const uint64_t now = n - done < softmax_stretch ? n - done : softmax_stretch;
#pragma omp simd
    for (uint64_t i = 0; i < now; ++i) terms[i] = fast_exp_of_negative(x[done + i] - shift);
    all += sum(terms, now);
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

template <class T>
TENON_CPU_LOOP double dot(const T* a, const T* b, uint64_t n) {
  double all = 0;
  for (uint64_t done = 0; done < n; done += softmax_stretch) {
    const uint64_t now = n - done < softmax_stretch ? n - done : softmax_stretch;
    Lanes<T> sums[4] = {}, v, w;
    T rest = 0;
    sweep<T>(
        now,
        [&](uint64_t i, int k) __attribute__((always_inline)) {
          load<T>(v, a + done + i);
          load<T>(w, b + done + i);
          sums[k] += v * w;
        },
        [&](uint64_t i) __attribute__((always_inline)) { rest += a[done + i] * b[done + i]; });
    sums[0] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    all += static_cast<double>(total<T>(sums[0]) + rest);
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

}  // namespace

template <class T>
const SoftmaxLoops<T>& softmax_loops() noexcept {
  static const SoftmaxLoops<T> loops = {
      widest<greatest<T>>(), widest<exponentials<T>>(), widest<sum_of_exponentials<T>>(),
      widest<scale<T>>(),    widest<shift<T>>(),        widest<dot<T>>(),
      widest<gradient<T>>(), widest<shares<T>>(),
  };
  return loops;
}

template <class T>
LogSum log_sum(T* terms, const T* x, uint64_t n) {
  const SoftmaxLoops<T>& loops = softmax_loops<T>();
  const T top = loops.greatest(x, n);
  const double sum =
      terms != nullptr ? loops.exponentials(terms, x, top, n) : loops.sum_of_exponentials(x, top, n);
  return {static_cast<double>(top), std::isinf(top) ? 1 : sum};
}

template const SoftmaxLoops<float>& softmax_loops<float>() noexcept;
template const SoftmaxLoops<double>& softmax_loops<double>() noexcept;
template LogSum log_sum<float>(float* terms, const float* x, uint64_t n);
template LogSum log_sum<double>(double* terms, const double* x, uint64_t n);

}  // namespace tenon::cpu
