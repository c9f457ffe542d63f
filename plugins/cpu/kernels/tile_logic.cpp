// SPDX-License-Identifier: Apache-2.0
// tile_logic.cpp: selection on every class, comparisons of all but floats, logic on bool, and the way to the op of a class.
//
// Invariant: a bool tile holds 0 and 1 only.
#include "tile_loops.hpp"
#include "wide.hpp"

namespace tenon::cpu {
namespace {

// One op a line reads as a table.
// clang-format off
struct Equal { template <class T> uint8_t operator()(T x, T y) const { return x == y ? 1 : 0; } };
struct NotEqual { template <class T> uint8_t operator()(T x, T y) const { return x != y ? 1 : 0; } };
struct Less { template <class T> uint8_t operator()(T x, T y) const { return x < y ? 1 : 0; } };
struct LessEqual { template <class T> uint8_t operator()(T x, T y) const { return x <= y ? 1 : 0; } };
struct Greater { template <class T> uint8_t operator()(T x, T y) const { return x > y ? 1 : 0; } };
struct GreaterEqual { template <class T> uint8_t operator()(T x, T y) const { return x >= y ? 1 : 0; } };
// clang-format on

// One op a line reads as a table.
// clang-format off
struct Not { uint8_t operator()(uint8_t x) const { return x ^ 1; } };
struct And { uint8_t operator()(uint8_t x, uint8_t y) const { return x & y; } };
struct Or { uint8_t operator()(uint8_t x, uint8_t y) const { return x | y; } };
struct Identity { uint8_t operator()(uint8_t x) const { return x; } };
struct Finite { uint8_t operator()(uint8_t) const { return 1; } };
// clang-format on

template <class T>
void select(void* dst, const void* a, const void* b, const void* c, uint32_t n, const Immediate&) {
  auto* __restrict out = static_cast<T*>(dst);
  const auto* condition = static_cast<const uint8_t*>(a);
  const auto* x = static_cast<const T*>(b);
  const auto* y = static_cast<const T*>(c);
  for (uint32_t i = 0; i < n; ++i) out[i] = condition[i] != 0 ? x[i] : y[i];
}

template <class T>
void fill(void* dst, const void*, const void*, const void*, uint32_t n, const Immediate& imm) {
  auto* out = static_cast<T*>(dst);
  for (uint32_t i = 0; i < n; ++i) out[i] = static_cast<T>(imm.a);
}

template <class T>
TileFn compare(uint32_t op) noexcept {
  switch (op) {
    case TN_OP_equal:
      return map2<uint8_t, T, Equal>;
    case TN_OP_not_equal:
      return map2<uint8_t, T, NotEqual>;
    case TN_OP_less:
      return map2<uint8_t, T, Less>;
    case TN_OP_less_equal:
      return map2<uint8_t, T, LessEqual>;
    case TN_OP_greater:
      return map2<uint8_t, T, Greater>;
    case TN_OP_greater_equal:
      return map2<uint8_t, T, GreaterEqual>;
    default:
      return nullptr;
  }
}

TileFn select_op(Reg reg) noexcept {
  switch (reg) {
    case Reg::f32:
      return widest<select<float>>();
    case Reg::f64:
      return widest<select<double>>();
    case Reg::i64:
      return widest<select<int64_t>>();
    case Reg::u64:
      return widest<select<uint64_t>>();
    case Reg::boolean:
      return widest<select<uint8_t>>();
  }
  return nullptr;
}

TileFn boolean_op(uint32_t op) noexcept {
  switch (op) {
    case TN_OP_logical_not:
      return map1<uint8_t, uint8_t, Not>;
    case TN_OP_logical_and:
      return map2<uint8_t, uint8_t, And>;
    case TN_OP_logical_or:
      return map2<uint8_t, uint8_t, Or>;
    case TN_OP_identity:
      return map1<uint8_t, uint8_t, Identity>;
    case TN_OP_is_finite:
      return map1<uint8_t, uint8_t, Finite>;
    default:
      return nullptr;
  }
}

}  // namespace

TileFn logic_op(uint32_t op, Reg reg) noexcept {
  if (op == TN_OP_where) return select_op(reg);
  switch (reg) {
    case Reg::i64:
      return compare<int64_t>(op);
    case Reg::u64:
      return compare<uint64_t>(op);
    case Reg::boolean:
      return compare<uint8_t>(op);
    case Reg::f32:
    case Reg::f64:
      break;
  }
  return nullptr;
}

TileFn fill_op(Reg reg) noexcept {
  switch (reg) {
    case Reg::f32:
      return fill<float>;
    case Reg::f64:
      return fill<double>;
    case Reg::i64:
      return fill<int64_t>;
    case Reg::u64:
      return fill<uint64_t>;
    case Reg::boolean:
      return fill<uint8_t>;
  }
  return nullptr;
}

TileFn tile_op(uint32_t op, Reg reg, bool variant) noexcept {
  if (const TileFn found = logic_op(op, reg)) return found;
  switch (reg) {
    case Reg::f32:
    case Reg::f64:
      return float_op(op, reg, variant);
    case Reg::i64:
    case Reg::u64:
      return integer_op(op, reg);
    case Reg::boolean:
      return boolean_op(op);
  }
  return nullptr;
}

TileFn tile_fn(const TileOp& op) noexcept {
  switch (op.kind) {
    case TileOp::Kind::op:
      return tile_op(op.op, op.reg, op.variant);
    case TileOp::Kind::cast:
      return cast_op(op.reg, op.dtype);
    case TileOp::Kind::narrow:
      return narrowing(op.dtype);
    case TileOp::Kind::fill:
      return fill_op(op.reg);
  }
  return nullptr;
}

bool is_heavy(const TileOp& op) noexcept {
  if (op.kind != TileOp::Kind::op || (op.reg != Reg::f32 && op.reg != Reg::f64)) return false;
  switch (op.op) {
    case TN_OP_exp:
    case TN_OP_log:
    case TN_OP_sigmoid:
    case TN_OP_tanh:
    case TN_OP_gelu:
    case TN_OP_silu:
    case TN_OP_erf:
    case TN_OP_sin:
    case TN_OP_cos:
    case TN_OP_pow:
    case TN_OP_mod:
    case TN_OP_gelu_grad:
    case TN_OP_silu_grad:
      return true;
    default:
      return false;
  }
}

bool needs_narrowing(uint32_t op) noexcept {
  switch (op) {
    case TN_OP_identity:
    case TN_OP_relu:
    case TN_OP_sign:
    case TN_OP_floor:
    case TN_OP_max:
    case TN_OP_min:
    case TN_OP_clip:
    case TN_OP_where:
    case TN_OP_cast:
      return false;
    default:
      return true;
  }
}

}  // namespace tenon::cpu
