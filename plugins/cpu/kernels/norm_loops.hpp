// SPDX-License-Identifier: Apache-2.0
// norm_loops.hpp: the arithmetic of normalisations on runs of f32 or f64, in the best instruction set of the processor.
//
// A run is dense. "Each" loops have one coefficient for each element, "run" loops one for all.
// Invariant: a loop's order of operations depends on the count alone.
#pragma once

#include <cmath>
#include <cstdint>

namespace tenon::cpu {

// Count, mean and Σ(x − mean)² of some numbers; two sets join without losing either's accuracy (Chan, Golub, LeVeque).
struct Moments {
  double count = 0, mean = 0, spread = 0;

  void join(const Moments& more) noexcept {
    if (more.count == 0) return;
    const double all = count + more.count, apart = more.mean - mean, share = more.count / all;
    mean += std::isinf(apart) ? more.mean : apart * share;  // an infinite mean stays
    spread += more.spread + apart * apart * count * share;
    count = all;
  }
};

// Σg and Σg·(x − mean) of some elements.
struct Dots {
  double sum = 0, product = 0;
};

template <class T>
struct NormLoops {
  // Of at most a few thousand numbers: long runs are joined from short ones.
  Moments (*moments)(const T* x, uint64_t n);
  double (*squares)(const T* x, uint64_t n);
  Dots (*dots)(const T* g, const T* x, T mean, uint64_t n);

  // One more row of columns: mean and spread of `1 / weight` rows of each (Welford).
  void (*fold_each)(T* mean, T* spread, const T* x, T weight, uint64_t n);
  // Joins such columns, `more` rows of each, to those of `count` rows.
  void (*join_each)(double* mean, double* spread, const T* more_mean, const T* more_spread, double count,
                    double more, uint64_t n);
  // sum += g; product += g·(x − mean).
  void (*dots_each)(T* sum, T* product, const T* g, const T* x, const T* mean, uint64_t n);
  // to += from.
  void (*add_each)(double* to, const T* from, uint64_t n);

  // y = (x − mean)·slope + level.
  void (*normalise_run)(T* y, const T* x, T mean, T slope, T level, uint64_t n);
  void (*normalise_each)(T* y, const T* x, const T* mean, const T* slope, const T* level, uint64_t n);
  // y = (x − mean)·inverse·scale + bias.
  void (*normalise_row)(T* y, const T* x, T mean, T inverse, const T* scale, const T* bias, uint64_t n);
  // y = x·inverse·scale.
  void (*scale_row)(T* y, const T* x, T inverse, const T* scale, uint64_t n);

  // to = g where (x − mean)·slope + level > least, else 0.
  void (*let_through_run)(T* to, const T* g, const T* x, T mean, T slope, T level, T least, uint64_t n);
  void (*let_through_each)(T* to, const T* g, const T* x, const T* mean, const T* slope, const T* level,
                           T least, uint64_t n);
  // dx = slope·(g − level − (x − mean)·tilt).
  void (*gradient_run)(T* dx, const T* g, const T* x, T mean, T slope, T level, T tilt, uint64_t n);
  void (*gradient_each)(T* dx, const T* g, const T* x, const T* mean, const T* slope, const T* level,
                        const T* tilt, uint64_t n);
  // Σw and Σw·x̂ with w = g·scale and x̂ = (x − mean)·inverse; dscale += g·x̂; dbias += g. What lies `ahead` elements behind g's
  // is asked for meanwhile.
  Dots (*dots_row)(const T* g, const T* x, const T* scale, T mean, T inverse, T* dscale, T* dbias, uint64_t n,
                   uint64_t ahead);
  // dx = inverse·(w − level − x̂·tilt).
  void (*gradient_row)(T* dx, const T* g, const T* x, const T* scale, T mean, T inverse, T level, T tilt,
                       uint64_t n);
};

// T: float or double. [any-thread; does not block; cannot fail]
template <class T>
const NormLoops<T>& norm_loops() noexcept;

}  // namespace tenon::cpu
