// SPDX-License-Identifier: Apache-2.0
// optimizer_loops.cpp: the loops, compiled for several instruction sets.
//
// Invariant: every operation is an IEEE one in the order written (no contraction), so a fused group gives what its nodes
// give one by one, on any processor.
#include "optimizer_loops.hpp"

#include "wide.hpp"

#include <tenon/fragment.h>

#include <cmath>

namespace tenon::cpu {
namespace {

template <class T, bool gives_gradient>
struct Sgd {
  static void run(const UpdateRow<T>& row, const UpdateFigures<T>& figures) {
    const T *weight = row.weight, *gradient = row.gradient;
    T *next = row.next, *next_gradient = row.next_gradient;
    const T unscale = figures.unscale, decay = figures.decay, rate = figures.rate;
#pragma omp simd
    for (uint64_t i = 0; i < row.count; ++i) {
      const T w = weight[i], g = gradient[i] * unscale + decay * w;
      next[i] = w - rate * g;
      if constexpr (gives_gradient) next_gradient[i] = g;
    }
  }
};

template <class T, bool nesterov>
struct Momentum {
  static void run(const UpdateRow<T>& row, const UpdateFigures<T>& figures) {
    const T *weight = row.weight, *gradient = row.gradient, *state = row.state[0];
    T *next = row.next, *next_state = row.next_state[0];
    const T unscale = figures.unscale, decay = figures.decay, rate = figures.rate, keep = figures.keep[0];
#pragma omp simd
    for (uint64_t i = 0; i < row.count; ++i) {
      const T w = weight[i], g = gradient[i] * unscale + decay * w;
      const T velocity = keep * state[i] + g;
      next[i] = w - rate * (nesterov ? g + keep * velocity : velocity);
      next_state[i] = velocity;
    }
  }
};

template <class T>
struct Adam {
  static void run(const UpdateRow<T>& row, const UpdateFigures<T>& figures) {
    const T *weight = row.weight, *gradient = row.gradient, *first = row.state[0], *second = row.state[1];
    T *next = row.next, *next_first = row.next_state[0], *next_second = row.next_state[1];
    const UpdateFigures<T> f = figures;
#pragma omp simd
    for (uint64_t i = 0; i < row.count; ++i) {
      const T w = weight[i], g = gradient[i] * f.unscale + f.decay * w;
      const T m = f.keep[0] * first[i] + f.take[0] * g;
      const T v = f.keep[1] * second[i] + f.take[1] * g * g;
      next[i] = f.shrink * w - f.rate * m / (std::sqrt(v) * f.root + f.epsilon);
      next_first[i] = m;
      next_second[i] = v;
    }
  }
};

}  // namespace

template <class T>
UpdateLoop<T> update_loop(uint32_t op, bool nesterov, bool gives_gradient) noexcept {
  switch (op) {
    case TN_OP_sgd:
      return gives_gradient ? widest<Sgd<T, true>>() : widest<Sgd<T, false>>();
    case TN_OP_momentum:
      return nesterov ? widest<Momentum<T, true>>() : widest<Momentum<T, false>>();
    default:
      return widest<Adam<T>>();
  }
}

template UpdateLoop<float> update_loop<float>(uint32_t, bool, bool) noexcept;
template UpdateLoop<double> update_loop<double>(uint32_t, bool, bool) noexcept;

}  // namespace tenon::cpu
