// SPDX-License-Identifier: Apache-2.0
// tile_ops.hpp: what can be done to a tile: a few hundred elements of one class, in L1.
//
// Elements are computed in five classes; narrower types are widened on the way in and narrowed on the way out:
//   f32 ← f16 bf16 f32    f64    i64 ← i8 … i64, u8 … u32    u64    bool
// Invariant: an op's result is that of its dtype: integers wrap to their width, halves are rounded once per op, whether
// ops run alone or in one pass.
#pragma once

#include <tenon/fragment.h>

#include <cstddef>
#include <cstdint>

namespace tenon::cpu {

class View;

enum class Reg : uint8_t { f32, f64, i64, u64, boolean };

constexpr Reg class_of(uint32_t dtype) noexcept {
  switch (dtype) {
    case TN_DTYPE_bool:
      return Reg::boolean;
    case TN_DTYPE_u64:
      return Reg::u64;
    case TN_DTYPE_f16:
    case TN_DTYPE_bf16:
    case TN_DTYPE_f32:
      return Reg::f32;
    case TN_DTYPE_f64:
      return Reg::f64;
    default:
      return Reg::i64;
  }
}
constexpr uint32_t class_bytes(Reg reg) noexcept { return reg == Reg::boolean ? 1 : reg == Reg::f32 ? 4 : 8; }
// Whether memory of this dtype is a tile as it stands.
constexpr bool is_native(uint32_t dtype) noexcept {
  return dtype == TN_DTYPE_bool || dtype >= TN_DTYPE_f32 || dtype == TN_DTYPE_i64 || dtype == TN_DTYPE_u64;
}

// Attributes of an op, as numbers.
struct Immediate {
  double a = 0, b = 0;
};

// dst[0 … n) from up to three operands. `dst` overlaps no operand; operands may be the same.
using TileFn = void (*)(void* dst, const void* a, const void* b, const void* c, uint32_t n,
                        const Immediate& imm);

// What is computed, by name: the interpreter finds its loop by it, the code generator its formula.
struct TileOp {
  enum class Kind : uint8_t { op, cast, narrow, fill };
  Kind kind = Kind::op;
  Reg reg = Reg::f32;    // of the operands that decide
  bool variant = false;  // gelu's tanh form
  uint32_t op = 0;       // of ops.def; Kind::op alone
  uint32_t dtype = 0;    // to which a cast goes, or of which a narrowed result is
};
constexpr TileOp op_of(uint32_t op, Reg reg, bool variant) noexcept {
  return {.kind = TileOp::Kind::op, .reg = reg, .variant = variant, .op = op};
}
constexpr TileOp cast_of(Reg from, uint32_t dtype) noexcept {
  return {.kind = TileOp::Kind::cast, .reg = from, .dtype = dtype};
}
constexpr TileOp narrowing_of(uint32_t dtype) noexcept {
  return {.kind = TileOp::Kind::narrow, .reg = class_of(dtype), .dtype = dtype};
}
// The interpreter's loop. [any-thread; cannot fail]
TileFn tile_fn(const TileOp& op) noexcept;
// Whether an element takes so long that the next tile's operands can be fetched meanwhile.
bool is_heavy(const TileOp& op) noexcept;

// The op on operands of class `reg`, or nullptr. `variant` picks gelu's tanh form. [any-thread; cannot fail]
TileFn tile_op(uint32_t op, Reg reg, bool variant) noexcept;
TileFn float_op(uint32_t op, Reg reg, bool variant) noexcept;
TileFn integer_op(uint32_t op, Reg reg) noexcept;
TileFn logic_op(uint32_t op, Reg reg) noexcept;
// Cast from a class to a dtype: the result is of class_of(dtype), and already as narrow as the dtype.
TileFn cast_op(Reg from, uint32_t dtype) noexcept;
// What brings a computed result back to its dtype, or nullptr when the class is no wider.
TileFn narrowing(uint32_t dtype) noexcept;
// imm.a everywhere.
TileFn fill_op(Reg reg) noexcept;
// Whether `op` can leave a result that its dtype does not hold.
bool needs_narrowing(uint32_t op) noexcept;

// Reads elements [begin, begin + n) of the view at `base` into a tile, and writes them from one.
using LoadFn = void (*)(const View& view, const std::byte* base, uint64_t begin, uint32_t n, void* tile);
using StoreFn = void (*)(const View& view, std::byte* base, uint64_t begin, uint32_t n, const void* tile);
LoadFn load_op(uint32_t dtype) noexcept;
StoreFn store_op(uint32_t dtype) noexcept;

}  // namespace tenon::cpu
