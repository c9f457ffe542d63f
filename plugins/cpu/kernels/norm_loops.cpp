// SPDX-License-Identifier: Apache-2.0
// norm_loops.cpp: the loops, once, for every type and instruction set.
//
// Invariant: sums within a run are kept in T over few additions per lane and leave as f64.
#include "norm_loops.hpp"

#include "lanes.hpp"
#include "norm_formulas.hpp"

#include <cmath>

namespace tenon::cpu {
namespace {

// Two passes; the second one's Σ(x − mean), zero but for rounding, corrects both results.
template <class T, uint32_t bytes>
TENON_CPU_LOOP Moments moments(const T* x, uint64_t n) {
  if (n == 0) return {};
  Lanes<T, bytes> sums[4] = {}, v;
  T rest = 0;
  sweep<T>(
      n, [&](uint64_t i, int k) __attribute__((always_inline)) { v.load(x + i), sums[k] += v; },
      [&](uint64_t i) __attribute__((always_inline)) { rest += x[i]; });
  const T mean = (total(sums) + rest) / static_cast<T>(n);

  Lanes<T, bytes> apart[4] = {}, squares[4] = {};
  T rest_apart = 0, rest_squares = 0;
  sweep<T>(
      n,
      [&](uint64_t i, int k) __attribute__((always_inline)) {
        v.load(x + i);
        v -= mean;
        apart[k] += v;
        squares[k].add_product(v, v);
      },
      [&](uint64_t i) __attribute__((always_inline)) {
        const T d = x[i] - mean;
        rest_apart += d;
        rest_squares += d * d;
      });
  const double count = static_cast<double>(n), off = static_cast<double>(total(apart) + rest_apart),
               spread = static_cast<double>(total(squares) + rest_squares) - off * off / count;
  // Where the mean is infinite, nothing is known of what rounding took from it.
  return {count, static_cast<double>(mean) + (std::isnan(off) ? 0 : off / count), spread < 0 ? 0 : spread};
}

template <class T, uint32_t bytes>
TENON_CPU_LOOP double squares(const T* x, uint64_t n) {
  Lanes<T, bytes> sums[4] = {}, v;
  T rest = 0;
  sweep<T>(
      n, [&](uint64_t i, int k) __attribute__((always_inline)) { v.load(x + i), sums[k].add_product(v, v); },
      [&](uint64_t i) __attribute__((always_inline)) { rest += x[i] * x[i]; });
  return static_cast<double>(total(sums) + rest);
}

template <class T, uint32_t bytes>
TENON_CPU_LOOP Dots dots(const T* g, const T* x, T mean, uint64_t n) {
  Lanes<T, bytes> sums[4] = {}, products[4] = {}, v, w;
  T rest_sum = 0, rest_product = 0;
  sweep<T>(
      n,
      [&](uint64_t i, int k) __attribute__((always_inline)) {
        v.load(g + i);
        w.load(x + i);
        w -= mean;
        sums[k] += v;
        products[k].add_product(v, w);
      },
      [&](uint64_t i) __attribute__((always_inline)) {
        rest_sum += g[i];
        rest_product += g[i] * (x[i] - mean);
      });
  return {static_cast<double>(total(sums) + rest_sum), static_cast<double>(total(products) + rest_product)};
}

template <class T>
TENON_CPU_LOOP void join_each(double* mean, double* spread, const T* more_mean, const T* more_spread,
                              double count, double more, uint64_t n) {
  const double share = more / (count + more), between = count * share;
#pragma omp simd
  for (uint64_t i = 0; i < n; ++i) {
    const double apart = static_cast<double>(more_mean[i]) - mean[i];
    mean[i] += apart * share;
    spread[i] += static_cast<double>(more_spread[i]) + apart * apart * between;
  }
}

template <class T>
TENON_CPU_LOOP void add_each(double* to, const T* from, uint64_t n) {
#pragma omp simd
  for (uint64_t i = 0; i < n; ++i) to[i] += static_cast<double>(from[i]);
}

template <class T, uint32_t bytes>
TENON_CPU_LOOP Dots dots_row(const T* g, const T* x, const T* scale, T mean, T inverse, T* dscale, T* dbias,
                             uint64_t n, uint64_t ahead) {
  Lanes<T, bytes> sums[4] = {}, products[4] = {}, v, hat, w, to;
  T rest_sum = 0, rest_product = 0;
  sweep<T>(
      n,
      [&](uint64_t i, int k) __attribute__((always_inline)) {
        __builtin_prefetch(g + i + ahead);
        v.load(g + i);
        hat.load(x + i);
        hat -= mean;
        hat *= inverse;
        to.load(dbias + i);
        to += v;
        to.store(dbias + i);
        to.load(dscale + i);
        to.add_product(v, hat);
        to.store(dscale + i);
        w.load(scale + i);
        w *= v;
        sums[k] += w;
        products[k].add_product(w, hat);
      },
      [&](uint64_t i) __attribute__((always_inline)) {
        const T one = (x[i] - mean) * inverse, weighted = g[i] * scale[i];
        dbias[i] += g[i];
        dscale[i] += g[i] * one;
        rest_sum += weighted;
        rest_product += weighted * one;
      });
  return {static_cast<double>(total(sums) + rest_sum), static_cast<double>(total(products) + rest_product)};
}

// Loops of norm_formulas.hpp.
template <class T>
struct Each {
  template <bool fused>
  struct Fold {
    static void run(T* mean, T* spread, const T* x, T weight, uint64_t n) {
#pragma omp simd
      for (uint64_t i = 0; i < n; ++i) {
        Scalar<T, fused> m = mean[i], s = spread[i];
        norm::fold<Scalar<T, fused>>(m, s, x[i], weight);
        mean[i] = m.v;
        spread[i] = s.v;
      }
    }
  };
  template <bool fused>
  struct DotsOf {
    static void run(T* sum, T* product, const T* g, const T* x, const T* mean, uint64_t n) {
#pragma omp simd
      for (uint64_t i = 0; i < n; ++i) {
        Scalar<T, fused> s = sum[i], p = product[i];
        norm::dots<Scalar<T, fused>>(s, p, g[i], x[i], mean[i]);
        sum[i] = s.v;
        product[i] = p.v;
      }
    }
  };
  template <bool fused>
  struct NormaliseRun {
    static void run(T* y, const T* x, T mean, T slope, T level, uint64_t n) {
#pragma omp simd
      for (uint64_t i = 0; i < n; ++i) y[i] = norm::normalised<Scalar<T, fused>>(x[i], mean, slope, level).v;
    }
  };
  template <bool fused>
  struct NormaliseEach {
    static void run(T* y, const T* x, const T* mean, const T* slope, const T* level, uint64_t n) {
#pragma omp simd
      for (uint64_t i = 0; i < n; ++i)
        y[i] = norm::normalised<Scalar<T, fused>>(x[i], mean[i], slope[i], level[i]).v;
    }
  };
  template <bool fused>
  struct NormaliseRow {
    static void run(T* y, const T* x, T mean, T inverse, const T* scale, const T* bias, uint64_t n) {
#pragma omp simd
      for (uint64_t i = 0; i < n; ++i)
        y[i] = norm::normalised_in_row<Scalar<T, fused>>(x[i], mean, inverse, scale[i], bias[i]).v;
    }
  };
  template <bool fused>
  struct ScaleRow {
    static void run(T* y, const T* x, T inverse, const T* scale, uint64_t n) {
#pragma omp simd
      for (uint64_t i = 0; i < n; ++i)
        y[i] = norm::scaled_in_row<Scalar<T, fused>>(x[i], inverse, scale[i]).v;
    }
  };
  template <bool fused>
  struct LetThroughRun {
    static void run(T* to, const T* g, const T* x, T mean, T slope, T level, T least, uint64_t n) {
#pragma omp simd
      for (uint64_t i = 0; i < n; ++i)
        to[i] = norm::let_through<Scalar<T, fused>>(g[i], x[i], mean, slope, level, least).v;
    }
  };
  template <bool fused>
  struct LetThroughEach {
    static void run(T* to, const T* g, const T* x, const T* mean, const T* slope, const T* level, T least,
                    uint64_t n) {
#pragma omp simd
      for (uint64_t i = 0; i < n; ++i)
        to[i] = norm::let_through<Scalar<T, fused>>(g[i], x[i], mean[i], slope[i], level[i], least).v;
    }
  };
  template <bool fused>
  struct GradientRun {
    static void run(T* dx, const T* g, const T* x, T mean, T slope, T level, T tilt, uint64_t n) {
#pragma omp simd
      for (uint64_t i = 0; i < n; ++i)
        dx[i] = norm::gradient<Scalar<T, fused>>(g[i], x[i], mean, slope, level, tilt).v;
    }
  };
  template <bool fused>
  struct GradientEach {
    static void run(T* dx, const T* g, const T* x, const T* mean, const T* slope, const T* level,
                    const T* tilt, uint64_t n) {
#pragma omp simd
      for (uint64_t i = 0; i < n; ++i)
        dx[i] = norm::gradient<Scalar<T, fused>>(g[i], x[i], mean[i], slope[i], level[i], tilt[i]).v;
    }
  };
  template <bool fused>
  struct GradientRow {
    static void run(T* dx, const T* g, const T* x, const T* scale, T mean, T inverse, T level, T tilt,
                    uint64_t n) {
#pragma omp simd
      for (uint64_t i = 0; i < n; ++i)
        dx[i] = norm::gradient_in_row<Scalar<T, fused>>(g[i], x[i], scale[i], mean, inverse, level, tilt).v;
    }
  };
};

template <class T>
NormLoops<T> norm_loops_of(Isa of) noexcept {
  using E = Each<T>;
  return {
      widest<moments<T, 64>, moments<T, 32>, moments<T, 16>>(of),
      widest<squares<T, 64>, squares<T, 32>, squares<T, 16>>(of),
      widest<dots<T, 64>, dots<T, 32>, dots<T, 16>>(of),
      widest_of<E::template Fold>(of),
      widest<join_each<T>>(of),
      widest_of<E::template DotsOf>(of),
      widest<add_each<T>>(of),
      widest_of<E::template NormaliseRun>(of),
      widest_of<E::template NormaliseEach>(of),
      widest_of<E::template NormaliseRow>(of),
      widest_of<E::template ScaleRow>(of),
      widest_of<E::template LetThroughRun>(of),
      widest_of<E::template LetThroughEach>(of),
      widest_of<E::template GradientRun>(of),
      widest_of<E::template GradientEach>(of),
      widest<dots_row<T, 64>, dots_row<T, 32>, dots_row<T, 16>>(of),
      widest_of<E::template GradientRow>(of),
  };
}

}  // namespace

template <class T>
const NormLoops<T>& norm_loops() noexcept {
  return widest_table<norm_loops_of<T>>();
}

template const NormLoops<float>& norm_loops<float>() noexcept;
template const NormLoops<double>& norm_loops<double>() noexcept;

}  // namespace tenon::cpu
