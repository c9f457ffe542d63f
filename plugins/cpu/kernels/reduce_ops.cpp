// SPDX-License-Identifier: Apache-2.0
// reduce_ops.cpp: the reductions as small classes, and the loops over them.
//
// A reduction is: State, none(dtype), step(State, element, index), join(State, State).
// Invariant: the first NaN wins extremes and argmax; of equal elements argmax keeps the first.
#include "reduce_ops.hpp"

#include "half.hpp"

#include <limits>
#include <type_traits>

namespace tenon::cpu {
namespace {

template <class T>
T& held(Accumulator& a) noexcept {
  if constexpr (std::is_same_v<T, double>)
    return a.real;
  else if constexpr (std::is_same_v<T, int64_t>)
    return a.integer;
  else
    return a.natural;
}
template <class T>
const T& held(const Accumulator& a) noexcept {
  return held<T>(const_cast<Accumulator&>(a));
}

// How a class is accumulated.
template <class T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, T>;

template <class T>
struct Sum {
  using State = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  static State none(uint32_t) { return State(0); }
  static State step(State s, T x) { return s + static_cast<State>(x); }
  static State join(State s, State t) { return s + t; }
};

template <class T>
struct Product {
  using State = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  static State none(uint32_t) { return State(1); }
  static State step(State s, T x) { return s * static_cast<State>(x); }
  static State join(State s, State t) { return s * t; }
};

// The lowest and highest values of a dtype, as its class holds them.
template <class T>
Wide<T> lowest(uint32_t dtype) {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<double>::infinity();
  if constexpr (std::is_same_v<T, uint64_t>) return 0;
  switch (dtype) {
    case TN_DTYPE_i8:
      return static_cast<Wide<T>>(INT8_MIN);
    case TN_DTYPE_i16:
      return static_cast<Wide<T>>(INT16_MIN);
    case TN_DTYPE_i32:
      return static_cast<Wide<T>>(INT32_MIN);
    case TN_DTYPE_i64:
      return static_cast<Wide<T>>(INT64_MIN);
    default:
      return 0;
  }
}
template <class T>
Wide<T> highest(uint32_t dtype) {
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<double>::infinity();
  switch (dtype) {
    case TN_DTYPE_i8:
      return static_cast<Wide<T>>(INT8_MAX);
    case TN_DTYPE_u8:
      return static_cast<Wide<T>>(UINT8_MAX);
    case TN_DTYPE_i16:
      return static_cast<Wide<T>>(INT16_MAX);
    case TN_DTYPE_u16:
      return static_cast<Wide<T>>(UINT16_MAX);
    case TN_DTYPE_i32:
      return static_cast<Wide<T>>(INT32_MAX);
    case TN_DTYPE_u32:
      return static_cast<Wide<T>>(UINT32_MAX);
    case TN_DTYPE_i64:
      return static_cast<Wide<T>>(INT64_MAX);
    default:
      return std::numeric_limits<Wide<T>>::max();
  }
}

template <class T>
struct Greatest {
  using State = Wide<T>;
  static State none(uint32_t dtype) { return lowest<T>(dtype); }
  static State step(State s, T x) { return join(s, static_cast<State>(x)); }
  static State join(State s, State t) { return s > t || s != s ? s : t; }
};
template <class T>
struct Least {
  using State = Wide<T>;
  static State none(uint32_t dtype) { return highest<T>(dtype); }
  static State step(State s, T x) { return join(s, static_cast<State>(x)); }
  static State join(State s, State t) { return s < t || s != s ? s : t; }
};

// Loops of a reduction R over class T. `dtype` is a template parameter only where the value of nothing needs it.
template <class R, class T, uint32_t dtype>
struct Loops {
  using State = typename R::State;

  static void start(Accumulator* sums, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) held<State>(sums[i]) = R::none(dtype);
  }
  // Eight sums side by side let the loop vectorise; their order is fixed, and so is the result.
  static void fold_row(Accumulator* sum, const void* tile, uint32_t n, uint64_t) {
    const auto* x = static_cast<const T*>(tile);
    State lanes[8];
    for (State& lane : lanes) lane = R::none(dtype);
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
      for (uint32_t k = 0; k < 8; ++k) lanes[k] = R::step(lanes[k], x[i + k]);
    }
    for (; i < n; ++i) lanes[0] = R::step(lanes[0], x[i]);
    for (uint32_t half = 4; half > 0; half /= 2) {
      for (uint32_t k = 0; k < half; ++k) lanes[k] = R::join(lanes[k], lanes[k + half]);
    }
    State& total = held<State>(*sum);
    total = R::join(total, lanes[0]);
  }
  static void fold_columns(Accumulator* sums, const void* tile, uint32_t n, uint64_t) {
    const auto* x = static_cast<const T*>(tile);
    for (uint32_t i = 0; i < n; ++i) held<State>(sums[i]) = R::step(held<State>(sums[i]), x[i]);
  }
  static void merge(Accumulator* sums, const Accumulator* more, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i)
      held<State>(sums[i]) = R::join(held<State>(sums[i]), held<State>(more[i]));
  }
};

template <class T>
struct Argmax {
  static void start(Accumulator* sums, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) sums[i].index = -1;
  }
  static bool wins(Wide<T> x, const Accumulator& best) {
    const Wide<T> y = held<Wide<T>>(best);
    return best.index < 0 || (y == y && (x > y || x != x));
  }
  static void take(Accumulator& best, Wide<T> x, int64_t index) {
    if (!wins(x, best)) return;
    held<Wide<T>>(best) = x;
    best.index = index;
  }
  static void fold_row(Accumulator* sum, const void* tile, uint32_t n, uint64_t at) {
    const auto* x = static_cast<const T*>(tile);
    for (uint32_t i = 0; i < n; ++i) take(*sum, x[i], static_cast<int64_t>(at + i));
  }
  static void fold_columns(Accumulator* sums, const void* tile, uint32_t n, uint64_t at) {
    const auto* x = static_cast<const T*>(tile);
    for (uint32_t i = 0; i < n; ++i) take(sums[i], x[i], static_cast<int64_t>(at));
  }
  static void merge(Accumulator* sums, const Accumulator* more, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) {
      if (more[i].index >= 0) take(sums[i], held<Wide<T>>(more[i]), more[i].index);
    }
  }
  // The index of the greatest of nothing is 0.
  static void finish(const Accumulator* sums, uint32_t n, uint64_t, void* tile) {
    auto* out = static_cast<int64_t*>(tile);
    for (uint32_t i = 0; i < n; ++i) out[i] = sums[i].index < 0 ? 0 : sums[i].index;
  }
};

// From a sum to class T; a half is told of the bits that f32 drops, so that it is rounded once.
template <class T, uint32_t dtype>
T narrowed(double x) {
  return dtype == TN_DTYPE_f16 || dtype == TN_DTYPE_bf16 ? static_cast<T>(to_odd(x)) : static_cast<T>(x);
}

template <class State, class T, uint32_t dtype>
void finish(const Accumulator* sums, uint32_t n, uint64_t, void* tile) {
  auto* out = static_cast<T*>(tile);
  for (uint32_t i = 0; i < n; ++i) {
    if constexpr (std::is_floating_point_v<T>)
      out[i] = narrowed<T, dtype>(held<State>(sums[i]));
    else
      out[i] = static_cast<T>(held<State>(sums[i]));
  }
}
template <class T, uint32_t dtype>
void finish_mean(const Accumulator* sums, uint32_t n, uint64_t length, void* tile) {
  auto* out = static_cast<T*>(tile);
  for (uint32_t i = 0; i < n; ++i) out[i] = narrowed<T, dtype>(sums[i].real / static_cast<double>(length));
}

template <class R, class T, uint32_t dtype>
ReduceOps ops_of() noexcept {
  using L = Loops<R, T, dtype>;
  return {L::start, L::fold_row, L::fold_columns, L::merge, finish<typename R::State, T, dtype>};
}

template <class T, uint32_t dtype>
ReduceOps ops_for(uint32_t op) noexcept {
  switch (op) {
    case TN_OP_sum:
      return ops_of<Sum<T>, T, dtype>();
    case TN_OP_reduce_max:
      return ops_of<Greatest<T>, T, dtype>();
    case TN_OP_reduce_min:
      return ops_of<Least<T>, T, dtype>();
    case TN_OP_reduce_prod:
      return ops_of<Product<T>, T, dtype>();
    case TN_OP_argmax: {
      using A = Argmax<T>;
      return {A::start, A::fold_row, A::fold_columns, A::merge, A::finish};
    }
    default:
      break;
  }
  ReduceOps mean = ops_of<Sum<T>, T, dtype>();
  if constexpr (std::is_floating_point_v<T>) mean.finish = finish_mean<T, dtype>;
  return mean;
}

}  // namespace

ReduceOps reduce_ops(uint32_t op, uint32_t dtype) noexcept {
  switch (dtype) {
    case TN_DTYPE_u8:
      return ops_for<int64_t, TN_DTYPE_u8>(op);
    case TN_DTYPE_i8:
      return ops_for<int64_t, TN_DTYPE_i8>(op);
    case TN_DTYPE_u16:
      return ops_for<int64_t, TN_DTYPE_u16>(op);
    case TN_DTYPE_i16:
      return ops_for<int64_t, TN_DTYPE_i16>(op);
    case TN_DTYPE_u32:
      return ops_for<int64_t, TN_DTYPE_u32>(op);
    case TN_DTYPE_i32:
      return ops_for<int64_t, TN_DTYPE_i32>(op);
    case TN_DTYPE_i64:
      return ops_for<int64_t, TN_DTYPE_i64>(op);
    case TN_DTYPE_u64:
      return ops_for<uint64_t, TN_DTYPE_u64>(op);
    case TN_DTYPE_f16:
      return ops_for<float, TN_DTYPE_f16>(op);
    case TN_DTYPE_bf16:
      return ops_for<float, TN_DTYPE_bf16>(op);
    case TN_DTYPE_f64:
      return ops_for<double, TN_DTYPE_f64>(op);
    default:
      return ops_for<float, TN_DTYPE_f32>(op);
  }
}

}  // namespace tenon::cpu
