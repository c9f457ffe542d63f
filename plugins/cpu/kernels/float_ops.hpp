// SPDX-License-Identifier: Apache-2.0
// float_ops.hpp: what each elementwise op does to floats, over any type of number (numbers.hpp): the one table behind the
// interpreter's loops and the generated code.
//
// Where an op cancels or amplifies a rounding, f32 is computed in f64 and rounded once, or as formulas.hpp says.
// Invariant: NaN comes out wherever the op's meaning lets it; max, min, relu and clip pass it on.
#pragma once

#include "formulas.hpp"
#include "tile_ops.hpp"

namespace tenon::cpu::float_ops {

template <class N>
concept F32 = sizeof(typename N::Real) == 4;

// One op a line reads as a table.
// clang-format off
struct Neg { template <class N> TENON_CPU_LOOP N operator()(N x) const { return -x; } };
struct Abs { template <class N> TENON_CPU_LOOP N operator()(N x) const { return abs(x); } };
struct Exp { template <class N> TENON_CPU_LOOP N operator()(N x) const { return formulas::exp(x); } };
struct Log { template <F32 N> TENON_CPU_LOOP N operator()(N x) const { return formulas::log(x); } };
struct Sqrt { template <class N> TENON_CPU_LOOP N operator()(N x) const { return sqrt(x); } };
struct Rsqrt { template <class N> TENON_CPU_LOOP N operator()(N x) const { return N(1) / sqrt(x); } };
struct Square { template <class N> TENON_CPU_LOOP N operator()(N x) const { return x * x; } };
struct Reciprocal { template <class N> TENON_CPU_LOOP N operator()(N x) const { return N(1) / x; } };
struct Sigmoid { template <class N> TENON_CPU_LOOP N operator()(N x) const { return formulas::sigmoid(x); } };
struct Tanh { template <class N> TENON_CPU_LOOP N operator()(N x) const { return formulas::tanh(x); } };
struct Relu { template <class N> TENON_CPU_LOOP N operator()(N x) const { return greater(N(0), x); } };
struct Gelu { template <F32 N> TENON_CPU_LOOP N operator()(N x) const { return formulas::gelu(x); } };
struct GeluTanh { template <class N> TENON_CPU_LOOP N operator()(N x) const { return formulas::gelu_tanh(x); } };
struct Silu { template <class N> TENON_CPU_LOOP N operator()(N x) const { return formulas::silu(x); } };
struct Floor { template <class N> TENON_CPU_LOOP N operator()(N x) const { return floor(x); } };
struct Erf { template <F32 N> TENON_CPU_LOOP N operator()(N x) const { return formulas::erf(x); } };
struct Identity { template <class N> TENON_CPU_LOOP N operator()(N x) const { return x; } };
// clang-format on
struct Sign {
  template <class N>
  TENON_CPU_LOOP N operator()(N x) const {
    return select(less(N(0), x), N(1), select(less(x, N(0)), N(-1), x));
  }
};
struct Finite {
  template <class N>
  TENON_CPU_LOOP auto operator()(N x) const {
    return less(abs(x), N(std::numeric_limits<typename N::Real>::infinity()));
  }
};
struct Scale {
  template <class N>
  TENON_CPU_LOOP N operator()(N x, const Immediate& imm) const {
    using W = typename N::Wide;
    return N::narrowed(F32<N> ? widen(x) * W(imm.a) + W(imm.b) : fma(widen(x), W(imm.a), W(imm.b)));
  }
};

// One op a line reads as a table.
// clang-format off
struct Add { template <class N> TENON_CPU_LOOP N operator()(N x, N y) const { return x + y; } };
struct Sub { template <class N> TENON_CPU_LOOP N operator()(N x, N y) const { return x - y; } };
struct Mul { template <class N> TENON_CPU_LOOP N operator()(N x, N y) const { return x * y; } };
struct Div { template <class N> TENON_CPU_LOOP N operator()(N x, N y) const { return x / y; } };
struct Max { template <class N> TENON_CPU_LOOP N operator()(N x, N y) const { return select(equal(x, x), greater(x, y), x); } };
struct Min { template <class N> TENON_CPU_LOOP N operator()(N x, N y) const { return select(equal(x, x), lesser(x, y), x); } };
struct Pow { template <F32 N> TENON_CPU_LOOP N operator()(N x, N y) const { return formulas::pow(x, y); } };
struct ReluGrad { template <class N> TENON_CPU_LOOP N operator()(N dy, N y) const { return select(less(N(0), y), dy, N(0)); } };
struct GeluGrad { template <F32 N> TENON_CPU_LOOP N operator()(N dy, N x) const { return formulas::gelu_grad(dy, x); } };
struct GeluTanhGrad { template <class N> TENON_CPU_LOOP N operator()(N dy, N x) const { return formulas::gelu_tanh_grad(dy, x); } };
struct SiluGrad { template <class N> TENON_CPU_LOOP N operator()(N dy, N x) const { return formulas::silu_grad(dy, x); } };
struct Clip { template <class N> TENON_CPU_LOOP N operator()(N x, N lo, N hi) const { return Min{}(Max{}(x, lo), hi); } };
// clang-format on
struct SigmoidGrad {
  template <class N>
  TENON_CPU_LOOP N operator()(N dy, N y) const {
    const auto w = widen(y);
    return N::narrowed(widen(dy) * (w * (typename N::Wide(1) - w)));
  }
};
struct TanhGrad {
  template <class N>
  TENON_CPU_LOOP N operator()(N dy, N y) const {
    const auto w = widen(y);
    return N::narrowed(widen(dy) * (typename N::Wide(1) - w * w));
  }
};
struct Fma {
  template <class N>
  TENON_CPU_LOOP N operator()(N x, N y, N z) const {
    if constexpr (F32<N>)
      return N::narrowed(widen(x) * widen(y) + widen(z));
    else
      return fma(x, y, z);
  }
};

// One op a line reads as a table.
// clang-format off
struct Equal { template <class N> TENON_CPU_LOOP auto operator()(N x, N y) const { return equal(x, y); } };
struct NotEqual { template <class N> TENON_CPU_LOOP auto operator()(N x, N y) const { return not_equal(x, y); } };
struct Less { template <class N> TENON_CPU_LOOP auto operator()(N x, N y) const { return less(x, y); } };
struct LessEqual { template <class N> TENON_CPU_LOOP auto operator()(N x, N y) const { return less_equal(x, y); } };
struct Greater { template <class N> TENON_CPU_LOOP auto operator()(N x, N y) const { return less(y, x); } };
struct GreaterEqual { template <class N> TENON_CPU_LOOP auto operator()(N x, N y) const { return less_equal(y, x); } };
// clang-format on

// Calls f with the op's function, and gives what it returns; f's default result where the op has none here. `variant` picks
// gelu's tanh form.
template <class F>
auto with(uint32_t op, bool variant, F&& f) -> decltype(f(Neg{})) {
  switch (op) {
    case TN_OP_neg:
      return f(Neg{});
    case TN_OP_abs:
      return f(Abs{});
    case TN_OP_exp:
      return f(Exp{});
    case TN_OP_log:
      return f(Log{});
    case TN_OP_sqrt:
      return f(Sqrt{});
    case TN_OP_rsqrt:
      return f(Rsqrt{});
    case TN_OP_square:
      return f(Square{});
    case TN_OP_reciprocal:
      return f(Reciprocal{});
    case TN_OP_sigmoid:
      return f(Sigmoid{});
    case TN_OP_tanh:
      return f(Tanh{});
    case TN_OP_relu:
      return f(Relu{});
    case TN_OP_gelu:
      return variant ? f(GeluTanh{}) : f(Gelu{});
    case TN_OP_silu:
      return f(Silu{});
    case TN_OP_floor:
      return f(Floor{});
    case TN_OP_sign:
      return f(Sign{});
    case TN_OP_erf:
      return f(Erf{});
    case TN_OP_is_finite:
      return f(Finite{});
    case TN_OP_scale:
      return f(Scale{});
    case TN_OP_identity:
      return f(Identity{});
    case TN_OP_add:
      return f(Add{});
    case TN_OP_sub:
      return f(Sub{});
    case TN_OP_mul:
      return f(Mul{});
    case TN_OP_div:
      return f(Div{});
    case TN_OP_max:
      return f(Max{});
    case TN_OP_min:
      return f(Min{});
    case TN_OP_pow:
      return f(Pow{});
    case TN_OP_relu_grad:
      return f(ReluGrad{});
    case TN_OP_gelu_grad:
      return variant ? f(GeluTanhGrad{}) : f(GeluGrad{});
    case TN_OP_silu_grad:
      return f(SiluGrad{});
    case TN_OP_sigmoid_grad:
      return f(SigmoidGrad{});
    case TN_OP_tanh_grad:
      return f(TanhGrad{});
    case TN_OP_clip:
      return f(Clip{});
    case TN_OP_fma:
      return f(Fma{});
    case TN_OP_equal:
      return f(Equal{});
    case TN_OP_not_equal:
      return f(NotEqual{});
    case TN_OP_less:
      return f(Less{});
    case TN_OP_less_equal:
      return f(LessEqual{});
    case TN_OP_greater:
      return f(Greater{});
    case TN_OP_greater_equal:
      return f(GreaterEqual{});
    default:
      return {};
  }
}

}  // namespace tenon::cpu::float_ops
