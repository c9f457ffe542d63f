// SPDX-License-Identifier: Apache-2.0
// arithmetic.cpp: see arithmetic.hpp.
//
// A block of the result is built in a small array that stays in the first-level cache, then written to everyone who gets
// it; what two ranks bring is joined in registers. Elements are loaded and stored bytewise, because a collective may begin at
// any byte.
// Invariant: an element is written after all of it is read, and no output lies across another element of a source.
#include "arithmetic.hpp"

#include "../driver.hpp"
#include "../kernels/half.hpp"
#include "../kernels/wide.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

namespace tenon::cpu::comm {
namespace {

constexpr uint64_t block = 1024, cache_line = 64, lead = 1024;

// How a dtype is kept and how it is computed with.
template <class T>
struct Plain {
  using Stored = T;
  using Computed = T;
  TENON_CPU_LOOP static T in(T x) { return x; }
  TENON_CPU_LOOP static T out(T x) { return x; }
};
struct Truth {
  using Stored = uint8_t;
  using Computed = uint8_t;
  TENON_CPU_LOOP static uint8_t in(uint8_t x) { return x != 0 ? 1 : 0; }
  TENON_CPU_LOOP static uint8_t out(uint8_t x) { return x; }
};
struct Half {
  using Stored = F16;
  using Computed = float;
  TENON_CPU_LOOP static float in(F16 x) { return widen(x); }
  TENON_CPU_LOOP static F16 out(float x) { return to_f16(x); }
};
struct Brain {
  using Stored = BF16;
  using Computed = float;
  TENON_CPU_LOOP static float in(BF16 x) { return widen(x); }
  TENON_CPU_LOOP static BF16 out(float x) { return to_bf16(x); }
};

// Integers are added and multiplied as unsigned ones, at least 32 bits wide, so that they wrap.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
TENON_CPU_LOOP T times(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a * b;
  else
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}
struct Sum {
  template <class T>
  TENON_CPU_LOOP static T join(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a + b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct Product {
  template <class T>
  TENON_CPU_LOOP static T join(T a, T b) {
    return times(a, b);
  }
};
template <class T>
TENON_CPU_LOOP bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return __builtin_isnan(x);
  else
    return false;
}
struct Least {
  template <class T>
  TENON_CPU_LOOP static T join(T a, T b) {
    return a < b || is_nan(a) ? a : b;
  }
};
struct Greatest {
  template <class T>
  TENON_CPU_LOOP static T join(T a, T b) {
    return a > b || is_nan(a) ? a : b;
  }
};

template <class T>
TENON_CPU_LOOP T factor_from(uint64_t bits) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(std::bit_cast<double>(bits));
  else
    return static_cast<T>(std::bit_cast<int64_t>(bits));
}
template <class T>
TENON_CPU_LOOP T divided(T sum, uint32_t ranks) {
  if constexpr (std::is_floating_point_v<T>)
    return sum / static_cast<T>(ranks);
  else
    return static_cast<T>(static_cast<int64_t>(sum) / static_cast<int64_t>(ranks));
}

template <class Form, class Join>
struct Reduce {
  using Stored = typename Form::Stored;
  using T = typename Form::Computed;

  TENON_CPU_LOOP static T load(const std::byte* from, uint64_t i) {
    Stored x;
    std::memcpy(&x, from + i * sizeof x, sizeof x);
    return Form::in(x);
  }
  TENON_CPU_LOOP static void store(std::byte* to, uint64_t i, T value) {
    const Stored x = Form::out(value);
    std::memcpy(to + i * sizeof x, &x, sizeof x);
  }

  // Of two ranks, for one or both of them. A line's elements are read before any is written, and it is written before the next is
  // read: several lines of one side in a row take half as long again. What goes to one rank has come through another's hands, so its
  // lines are asked for ahead: what is read is there then, and what is written waits for nobody who has read it. What goes to both is
  // not: past the caches that makes it 1.4 times as slow (16 MB of two ranks on Zen 5), and gradients are past the caches.
  template <bool both>
  TENON_CPU_LOOP static void run_pair(const Row* row) {
    constexpr uint64_t held = cache_line / sizeof(Stored);
    const std::byte *const a = row->sources[0], *const b = row->sources[1];
    std::byte *const first = row->outs[0], *const last = row->outs[row->out_count - 1];
    const uint64_t count = row->count, whole = count / held * held, end = both ? 0 : whole * sizeof(Stored);
    for (uint64_t begin = 0; begin < whole; begin += held) {
      if (const uint64_t ahead = begin * sizeof(Stored) + lead; ahead < end) {
        __builtin_prefetch(a + ahead);
        __builtin_prefetch(b + ahead);
        driver::prefetch_to_write(first + ahead);
      }
      T sum[held];
      for (uint64_t i = 0; i < held; ++i) sum[i] = Join::join(load(a, begin + i), load(b, begin + i));
      for (uint64_t i = 0; i < held; ++i) store(first, begin + i, sum[i]);
      if (!both) continue;
      for (uint64_t i = 0; i < held; ++i) store(last, begin + i, sum[i]);
    }
    for (uint64_t i = whole; i < count; ++i) {
      const T sum = Join::join(load(a, i), load(b, i));
      store(first, i, sum);
      if (both) store(last, i, sum);
    }
  }

  static void run(const Row* row) {
    const bool pair = row->ranks == 2 && row->factors == nullptr && !row->mean;
    if (pair && row->out_count == 1) return run_pair<false>(row);
    if (pair && row->out_count == 2) return run_pair<true>(row);
    alignas(64) T sum[block];
    for (uint64_t begin = 0; begin < row->count; begin += block) {
      const uint64_t n = std::min(block, row->count - begin), skipped = begin * sizeof(Stored);
      for (uint32_t r = 0; r < row->ranks; ++r) {
        const std::byte* from = row->sources[r] + skipped;
        if (row->factors != nullptr) {
          const T factor = factor_from<T>(row->factors[r]);
          if (r == 0)
            for (uint64_t i = 0; i < n; ++i) sum[i] = times(factor, load(from, i));
          else
            for (uint64_t i = 0; i < n; ++i) sum[i] = Join::join(sum[i], times(factor, load(from, i)));
        } else {
          if (r == 0)
            for (uint64_t i = 0; i < n; ++i) sum[i] = load(from, i);
          else
            for (uint64_t i = 0; i < n; ++i) sum[i] = Join::join(sum[i], load(from, i));
        }
      }
      if (row->mean) {
        for (uint64_t i = 0; i < n; ++i) sum[i] = divided(sum[i], row->ranks);
      }
      for (uint32_t k = 0; k < row->out_count; ++k) {
        std::byte* to = row->outs[k] + skipped;
        for (uint64_t i = 0; i < n; ++i) store(to, i, sum[i]);
      }
    }
  }
};

template <class Form>
ReduceRow of_form(uint32_t reduce) noexcept {
  switch (reduce) {
    case TN_REDUCE_SUM:
    case TN_REDUCE_AVG:
    case TN_REDUCE_PREMUL_SUM:
      return widest<Reduce<Form, Sum>>();
    case TN_REDUCE_PROD:
      return widest<Reduce<Form, Product>>();
    case TN_REDUCE_MIN:
      return widest<Reduce<Form, Least>>();
    case TN_REDUCE_MAX:
      return widest<Reduce<Form, Greatest>>();
    default:
      return nullptr;
  }
}

ReduceRow of_truth(uint32_t reduce) noexcept {
  switch (reduce) {
    case TN_REDUCE_SUM:
    case TN_REDUCE_MAX:
      return widest<Reduce<Truth, Greatest>>();
    case TN_REDUCE_PROD:
    case TN_REDUCE_MIN:
      return widest<Reduce<Truth, Least>>();
    default:
      return nullptr;
  }
}

template <class T>
T value_at(const std::byte* at) noexcept {
  T x;
  std::memcpy(&x, at, sizeof x);
  return x;
}

}  // namespace

ReduceRow reduce_row(uint32_t dtype, uint32_t reduce) noexcept {
  switch (dtype) {
    case TN_DTYPE_bool:
      return of_truth(reduce);
    case TN_DTYPE_u8:
      return of_form<Plain<uint8_t>>(reduce);
    case TN_DTYPE_i8:
      return of_form<Plain<int8_t>>(reduce);
    case TN_DTYPE_i32:
      return of_form<Plain<int32_t>>(reduce);
    case TN_DTYPE_i64:
      return of_form<Plain<int64_t>>(reduce);
    case TN_DTYPE_f16:
      return of_form<Half>(reduce);
    case TN_DTYPE_bf16:
      return of_form<Brain>(reduce);
    case TN_DTYPE_f32:
      return of_form<Plain<float>>(reduce);
    case TN_DTYPE_f64:
      return of_form<Plain<double>>(reduce);
    default:
      return nullptr;
  }
}

uint64_t width_of(uint32_t dtype) noexcept {
  switch (dtype) {
#define TN_DTYPE(number, name, bits, class) \
  case number:                              \
    return bits / 8;
#define TN_DTYPE_RESERVED(number, name, bits, class)
#include <tenon/dtypes.def>
    default:
      return 0;
  }
}

bool is_whole(uint32_t dtype) noexcept {
  return dtype != TN_DTYPE_f16 && dtype != TN_DTYPE_bf16 && dtype != TN_DTYPE_f32 && dtype != TN_DTYPE_f64;
}

uint64_t factor_at(const std::byte* at, uint32_t dtype) noexcept {
  switch (dtype) {
    case TN_DTYPE_u8:
      return value_at<uint8_t>(at);
    case TN_DTYPE_i8:
      return static_cast<uint64_t>(int64_t{value_at<int8_t>(at)});
    case TN_DTYPE_i32:
      return static_cast<uint64_t>(int64_t{value_at<int32_t>(at)});
    case TN_DTYPE_i64:
      return value_at<uint64_t>(at);
    case TN_DTYPE_f16:
      return std::bit_cast<uint64_t>(static_cast<double>(widen(value_at<F16>(at))));
    case TN_DTYPE_bf16:
      return std::bit_cast<uint64_t>(static_cast<double>(widen(value_at<BF16>(at))));
    case TN_DTYPE_f32:
      return std::bit_cast<uint64_t>(static_cast<double>(value_at<float>(at)));
    default:
      return value_at<uint64_t>(at);
  }
}

uint64_t factor_of(double scalar, uint32_t dtype) noexcept {
  return is_whole(dtype) ? static_cast<uint64_t>(static_cast<int64_t>(scalar))
                         : std::bit_cast<uint64_t>(scalar);
}

}  // namespace tenon::cpu::comm
