// SPDX-License-Identifier: Apache-2.0
// translation.cpp: ops, casts and roundings of floats and bools.
//
// Invariant: an op is float_ops.hpp's, whatever the number is; a half is rounded as half.hpp does it.
#include "translation.hpp"

#include "../float_ops.hpp"

#include <tenon/author/names.hpp>
#include <tenon/author/text.hpp>

#include <optional>

namespace tenon::cpu::jit {
namespace {

using N = Traced<float>;
using W = Traced<double>;

Translated of(N x) { return {Reg::f32, x.node}; }
Translated of(W x) { return {Reg::f64, x.node}; }
Translated of(TracedMask x) { return {Reg::boolean, x.node}; }

template <class T>
T number(const Translated& x) {
  return T(x.node);
}

// F on as many operands as it takes; nothing where it has no formula for T.
template <class T, class F>
std::optional<Translated> applied(F f, const Translated* x, const Immediate& imm) {
  if constexpr (std::is_invocable_v<F, T>)
    return of(f(number<T>(x[0])));
  else if constexpr (std::is_invocable_v<F, T, const Immediate&>)
    return of(f(number<T>(x[0]), imm));
  else if constexpr (std::is_invocable_v<F, T, T>)
    return of(f(number<T>(x[0]), number<T>(x[1])));
  else if constexpr (std::is_invocable_v<F, T, T, T>)
    return of(f(number<T>(x[0]), number<T>(x[1]), number<T>(x[2])));
  else
    return std::nullopt;
}

std::optional<Translated> selected(const TilePlan::Action& action, const Translated* x) {
  const TracedMask mask = x[0].mask();
  switch (action.op.reg) {
    case Reg::f32:
      return of(select(mask, x[1].f32(), x[2].f32()));
    case Reg::f64:
      return of(select(mask, x[1].f64(), x[2].f64()));
    default:
      return of((mask & x[1].mask()) | (inverse(mask) & x[2].mask()));
  }
}

std::optional<Translated> of_bools(uint32_t op, const Translated* x) {
  switch (op) {
    case TN_OP_identity:
      return x[0];
    case TN_OP_logical_not:
      return of(inverse(x[0].mask()));
    case TN_OP_logical_and:
      return of(x[0].mask() & x[1].mask());
    case TN_OP_logical_or:
      return of(x[0].mask() | x[1].mask());
    default:
      return std::nullopt;
  }
}

std::optional<Translated> op(const TilePlan::Action& action, const Translated* x) {
  const TileOp& op = action.op;
  if (op.op == TN_OP_where) return selected(action, x);
  switch (op.reg) {
    case Reg::f32:
      return float_ops::with(op.op, op.variant, [&](auto f) -> std::optional<Translated> {
        return applied<N>(f, x, action.imm);
      });
    case Reg::f64:
      return float_ops::with(op.op, op.variant, [&](auto f) -> std::optional<Translated> {
        return applied<W>(f, x, action.imm);
      });
    case Reg::boolean:
      return of_bools(op.op, x);
    default:
      return std::nullopt;
  }
}

N rounded_to(N x, uint32_t dtype) {
  return dtype == TN_DTYPE_f16 ? rounded_to_f16(x) : dtype == TN_DTYPE_bf16 ? rounded_to_bf16(x) : x;
}

N cast_to_f32(const Translated& x, uint32_t dtype) {
  switch (x.reg) {
    case Reg::f32:
      return rounded_to(x.f32(), dtype);
    case Reg::f64:
      return dtype == TN_DTYPE_f32 ? N::narrowed(x.f64()) : rounded_to(to_odd(x.f64()), dtype);
    case Reg::i64:
      return dtype == TN_DTYPE_f32 ? N::from_whole({x.node})
                                   : rounded_to(to_odd(W::from_whole({x.node})), dtype);
    default:
      return select(x.mask(), N(1), N(0));
  }
}
W cast_to_f64(const Translated& x) {
  switch (x.reg) {
    case Reg::f32:
      return widen(x.f32());
    case Reg::f64:
      return x.f64();
    case Reg::i64:
      return W::from_whole({x.node});
    default:
      return select(x.mask(), W(1), W(0));
  }
}
TracedMask cast_to_bool(const Translated& x) {
  switch (x.reg) {
    case Reg::f32:
      return not_equal(x.f32(), N(0));
    case Reg::f64:
      return not_equal(x.f64(), W(0));
    default:
      return x.mask();
  }
}
Translated cast(const Translated& x, uint32_t dtype) {
  switch (class_of(dtype)) {
    case Reg::f32:
      return of(cast_to_f32(x, dtype));
    case Reg::f64:
      return of(cast_to_f64(x));
    default:
      return of(cast_to_bool(x));
  }
}

std::optional<Translated> computed(const TilePlan::Action& action, const Translated* x) {
  switch (action.op.kind) {
    case TileOp::Kind::op:
      return op(action, x);
    case TileOp::Kind::cast:
      if (x[0].reg == Reg::i64 && class_of(action.op.dtype) == Reg::boolean) return std::nullopt;
      return cast(x[0], action.op.dtype);
    case TileOp::Kind::narrow:
      return of(rounded_to(x[0].f32(), action.op.dtype));
    case TileOp::Kind::fill:
      break;
  }
  return std::nullopt;
}

}  // namespace

bool translates(Reg reg) noexcept { return reg == Reg::f32 || reg == Reg::f64 || reg == Reg::boolean; }

bool reads(uint32_t dtype) noexcept {
  switch (dtype) {
    case TN_DTYPE_u8:
    case TN_DTYPE_i8:
    case TN_DTYPE_u16:
    case TN_DTYPE_i16:
    case TN_DTYPE_i32:
      return true;
    default:
      return translates(class_of(dtype));
  }
}

Translated load(Program& program, uint32_t index) {
  const Reg reg = class_of(program.memory[index].dtype);
  const uint8_t bytes = reg == Reg::f64 ? 8 : 4;
  return {reg,
          {.program = &program,
           .value = program.add({.op = Op::load, .bytes = bytes, .imm = index}),
           .bytes = bytes}};
}

bool compute(const TilePlan::Action& action, const Translated* operands, Translated& out, std::string& why) {
  if (const std::optional<Translated> found = computed(action, operands)) {
    out = *found;
    return true;
  }
  if (action.op.reg == Reg::i64) {
    why = "integers";
    return false;
  }
  const char* const reg = action.op.reg == Reg::f32 ? "f32" : action.op.reg == Reg::f64 ? "f64" : "bool";
  why = author::text(author::op_name(action.op.op), " of ", reg);
  return false;
}

Translated constant(Program& program, Reg reg, double number) {
  Node node = reg == Reg::f64 ? W(number).node : N(static_cast<float>(number)).node;
  node.value = node.in(program);
  node.program = &program;
  return {reg, node};
}

void store(Program& program, uint32_t index, const Translated& value, bool exact) {
  const uint32_t dtype = program.memory[index].dtype;
  Node node = value.reg == Reg::boolean ? value.mask().as_wide_as(4).node : value.node;
  if (dtype == TN_DTYPE_bf16 && !exact)
    node = nearest_bf16(value.f32()).node;  // f16 is rounded on its way out
  program.add(
      {.op = Op::store, .bytes = node.bytes, .imm = index, .operands = {node.in(program), none, none}});
}

}  // namespace tenon::cpu::jit
