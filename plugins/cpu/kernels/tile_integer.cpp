// SPDX-License-Identifier: Apache-2.0
// tile_integer.cpp: arithmetic on tiles of whole numbers, signed and unsigned.
//
// Invariant: everything is computed modulo 2^64, so no operand is undefined; narrower types are cut afterwards.
#include "tile_loops.hpp"

namespace tenon::cpu {
namespace {

constexpr uint64_t bits(int64_t x) { return static_cast<uint64_t>(x); }
constexpr uint64_t bits(uint64_t x) { return x; }
// The one quotient that does not fit: it wraps to itself.
constexpr bool overflows(int64_t x, int64_t y) { return x == INT64_MIN && y == -1; }
constexpr bool overflows(uint64_t, uint64_t) { return false; }

// One op a line reads as a table.
// clang-format off
struct Neg { template <class T> T operator()(T x) const { return static_cast<T>(uint64_t{0} - bits(x)); } };
struct Abs { template <class T> T operator()(T x) const { return x < T(0) ? Neg{}(x) : x; } };
struct Square { template <class T> T operator()(T x) const { return static_cast<T>(bits(x) * bits(x)); } };
struct Relu { template <class T> T operator()(T x) const { return x > T(0) ? x : T(0); } };
struct Sign { template <class T> T operator()(T x) const { return static_cast<T>(x > T(0) ? 1 : x < T(0) ? -1 : 0); } };
struct Identity { template <class T> T operator()(T x) const { return x; } };
struct Finite { template <class T> uint8_t operator()(T) const { return 1; } };
// clang-format on

// One op a line reads as a table.
// clang-format off
struct Add { template <class T> T operator()(T x, T y) const { return static_cast<T>(bits(x) + bits(y)); } };
struct Sub { template <class T> T operator()(T x, T y) const { return static_cast<T>(bits(x) - bits(y)); } };
struct Mul { template <class T> T operator()(T x, T y) const { return static_cast<T>(bits(x) * bits(y)); } };
// clang-format on
struct Div {
  template <class T>
  T operator()(T x, T y) const {
    return y == 0 ? T(0) : overflows(x, y) ? x : static_cast<T>(x / y);
  }
};
struct Mod {
  template <class T>
  T operator()(T x, T y) const {
    return y == 0 || overflows(x, y) ? T(0) : static_cast<T>(x % y);
  }
};
// One op a line reads as a table.
// clang-format off
struct Max { template <class T> T operator()(T x, T y) const { return x > y ? x : y; } };
struct Min { template <class T> T operator()(T x, T y) const { return x < y ? x : y; } };
struct Clip { template <class T> T operator()(T x, T lo, T hi) const { return Min{}(Max{}(x, lo), hi); } };
// clang-format on

template <class T>
TileFn any_op(uint32_t op) noexcept {
  switch (op) {
    case TN_OP_neg:
      return map1<T, T, Neg>;
    case TN_OP_abs:
      return map1<T, T, Abs>;
    case TN_OP_square:
      return map1<T, T, Square>;
    case TN_OP_relu:
      return map1<T, T, Relu>;
    case TN_OP_sign:
      return map1<T, T, Sign>;
    case TN_OP_identity:
      return map1<T, T, Identity>;
    case TN_OP_is_finite:
      return map1<uint8_t, T, Finite>;
    case TN_OP_add:
      return map2<T, T, Add>;
    case TN_OP_sub:
      return map2<T, T, Sub>;
    case TN_OP_mul:
      return map2<T, T, Mul>;
    case TN_OP_div:
      return map2<T, T, Div>;
    case TN_OP_mod:
      return map2<T, T, Mod>;
    case TN_OP_max:
      return map2<T, T, Max>;
    case TN_OP_min:
      return map2<T, T, Min>;
    case TN_OP_clip:
      return map3<T, T, Clip>;
    default:
      return nullptr;
  }
}

}  // namespace

TileFn integer_op(uint32_t op, Reg reg) noexcept {
  return reg == Reg::i64 ? any_op<int64_t>(op) : any_op<uint64_t>(op);
}

}  // namespace tenon::cpu
