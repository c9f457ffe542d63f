// SPDX-License-Identifier: Apache-2.0
// tile_cast.cpp: from one dtype to another, in a tile, on the way into one, and on the way out.
//
// Float to integer truncates and saturates, NaN becomes 0; integer to narrower integer wraps; anything to bool is x ≠ 0.
// Invariant: a cast rounds once, also to a half from a type that f32 does not hold (through round-to-odd).
#include "half.hpp"
#include "tile_loops.hpp"
#include "view.hpp"
#include "wide.hpp"

#include <cstring>
#include <limits>
#include <type_traits>

namespace tenon::cpu {
namespace {

// The element type of a tile that holds elements of memory type T.
template <class T>
using Wide = std::conditional_t<
    std::is_same_v<T, F16> || std::is_same_v<T, BF16>, float,
    std::conditional_t<
        std::is_same_v<T, bool>, uint8_t,
        std::conditional_t<std::is_same_v<T, uint64_t> || std::is_floating_point_v<T>, T, int64_t>>>;

template <class T>
Wide<T> widened(T x) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>)
    return widen(x);
  else
    return static_cast<Wide<T>>(x);
}

// A value that the dtype already holds, up to rounding and wrapping.
template <class T>
T narrowed(Wide<T> x) {
  if constexpr (std::is_same_v<T, F16>)
    return to_f16(x);
  else if constexpr (std::is_same_v<T, BF16>)
    return to_bf16(x);
  else
    return static_cast<T>(x);
}

template <class I, class F>
I saturated(F x) {
  // Both bounds are powers of two, and so exact in F.
  constexpr F low = static_cast<F>(std::numeric_limits<I>::min());
  constexpr F end = static_cast<F>(std::numeric_limits<I>::max() / 2 + 1) * F(2);
  if (!(x == x)) return 0;
  if (x < low) return std::numeric_limits<I>::min();
  if (x >= end) return std::numeric_limits<I>::max();
  return static_cast<I>(x);
}

// From tile class S to dtype T, staying in T's class.
template <class T>
struct Cast {
  template <class S>
  Wide<T> operator()(S x) const {
    if constexpr (std::is_same_v<T, bool>)
      return x != S(0) ? 1 : 0;
    else if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
      if constexpr (std::is_same_v<S, float>)
        return widen(narrowed<T>(x));
      else if constexpr (std::is_same_v<S, uint8_t>)
        return x;
      else
        return widen(narrowed<T>(to_odd(x)));
    } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<S>)
      return static_cast<Wide<T>>(saturated<T>(x));
    else
      return static_cast<Wide<T>>(static_cast<T>(x));
  }
};

template <class T>
struct Narrow {
  Wide<T> operator()(Wide<T> x) const { return widened(narrowed<T>(x)); }
};

template <class T>
TileFn cast_to(Reg from) noexcept {
  switch (from) {
    case Reg::f32:
      if constexpr (std::is_same_v<Wide<T>, int64_t> || std::is_same_v<T, uint64_t>)
        return map1<Wide<T>, float, Cast<T>>;
      else
        return widest<map1<Wide<T>, float, Cast<T>>>();
    case Reg::f64:
      return map1<Wide<T>, double, Cast<T>>;
    case Reg::i64:
      return map1<Wide<T>, int64_t, Cast<T>>;
    case Reg::u64:
      return map1<Wide<T>, uint64_t, Cast<T>>;
    case Reg::boolean:
      return map1<Wide<T>, uint8_t, Cast<T>>;
  }
  return nullptr;
}

template <class T>
void load(const View& view, const std::byte* base, uint64_t begin, uint32_t n, void* tile) {
  auto* out = static_cast<Wide<T>*>(tile);
  const auto* elements = reinterpret_cast<const T*>(base);
  view.for_runs(begin, n, [&](int64_t offset, uint64_t length, int64_t stride) {
    const T* x = elements + offset;
    if (stride == 1) {
      for (uint64_t i = 0; i < length; ++i) out[i] = widened(x[i]);
    } else {
      for (uint64_t i = 0; i < length; ++i) out[i] = widened(x[static_cast<int64_t>(i) * stride]);
    }
    out += length;
  });
}

template <class T>
void store(const View& view, std::byte* base, uint64_t begin, uint32_t n, const void* tile) {
  const auto* x = static_cast<const Wide<T>*>(tile);
  auto* elements = reinterpret_cast<T*>(base);
  view.for_runs(begin, n, [&](int64_t offset, uint64_t length, int64_t stride) {
    T* out = elements + offset;
    if (stride == 1) {
      for (uint64_t i = 0; i < length; ++i) out[i] = narrowed<T>(x[i]);
    } else {
      for (uint64_t i = 0; i < length; ++i) out[static_cast<int64_t>(i) * stride] = narrowed<T>(x[i]);
    }
    x += length;
  });
}

// Calls f with a value of the memory type behind `dtype`.
template <class F>
auto with_type(uint32_t dtype, F&& f) noexcept -> decltype(f(float{})) {
  switch (dtype) {
    case TN_DTYPE_bool:
      return f(bool{});
    case TN_DTYPE_u8:
      return f(uint8_t{});
    case TN_DTYPE_i8:
      return f(int8_t{});
    case TN_DTYPE_u16:
      return f(uint16_t{});
    case TN_DTYPE_i16:
      return f(int16_t{});
    case TN_DTYPE_u32:
      return f(uint32_t{});
    case TN_DTYPE_i32:
      return f(int32_t{});
    case TN_DTYPE_u64:
      return f(uint64_t{});
    case TN_DTYPE_i64:
      return f(int64_t{});
    case TN_DTYPE_f16:
      return f(F16{});
    case TN_DTYPE_bf16:
      return f(BF16{});
    case TN_DTYPE_f32:
      return f(float{});
    case TN_DTYPE_f64:
      return f(double{});
    default:
      return nullptr;
  }
}

}  // namespace

TileFn cast_op(Reg from, uint32_t dtype) noexcept {
  return with_type(dtype, [&](auto type) { return cast_to<decltype(type)>(from); });
}

TileFn narrowing(uint32_t dtype) noexcept {
  if (is_native(dtype)) return nullptr;
  return with_type(dtype, [](auto type) -> TileFn {
    using T = decltype(type);
    return widest<map1<Wide<T>, Wide<T>, Narrow<T>>>();
  });
}

LoadFn load_op(uint32_t dtype) noexcept {
  return with_type(dtype, [](auto type) -> LoadFn { return widest<load<decltype(type)>>(); });
}

StoreFn store_op(uint32_t dtype) noexcept {
  return with_type(dtype, [](auto type) -> StoreFn { return widest<store<decltype(type)>>(); });
}

}  // namespace tenon::cpu
