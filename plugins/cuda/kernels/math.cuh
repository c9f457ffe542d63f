// SPDX-License-Identifier: Apache-2.0
// math.cuh: one function for each elementwise op of ops.def, named as the op is.
//
// Arguments are the op's inputs in their register types (halves come as f32), then its attributes in the order of their
// names. To add an op: its row in ops.def, its function here. Halves are rounded by the caller, once per op.
// Invariant: integers wrap, divide toward zero and give 0 when divided by it; max and min propagate NaN.

namespace tn {

// The unsigned type of T's width: arithmetic that wraps.
template <class T>
struct UnsignedOf { using type = T; };
template <>
struct UnsignedOf<i8> { using type = u8; };
template <>
struct UnsignedOf<i16> { using type = u16; };
template <>
struct UnsignedOf<i32> { using type = u32; };
template <>
struct UnsignedOf<i64> { using type = u64; };

// At least 32 bits wide, so that C++ promotes nothing to a signed type on the way.
template <class T>
__device__ inline auto wrapping(T x) {
  const auto plain = static_cast<typename UnsignedOf<T>::type>(x);
  if constexpr (sizeof(T) < 4)
    return static_cast<u32>(plain);
  else
    return plain;
}

template <class T>
constexpr bool is_real = false;
template <>
constexpr bool is_real<f32> = true;
template <>
constexpr bool is_real<f64> = true;
template <class T>
constexpr bool is_signed = static_cast<T>(-1) < static_cast<T>(0);

// The functions of the mathematics library, by one name for f32 and f64.
#define TN_MATH(ours, f32_name, f64_name)                        \
  __device__ inline f32 ours(f32 x) { return ::f32_name(x); } \
  __device__ inline f64 ours(f64 x) { return ::f64_name(x); }
TN_MATH(exp, expf, exp)
TN_MATH(log, logf, log)
TN_MATH(log1p, log1pf, log1p)
TN_MATH(sqrt, sqrtf, sqrt)
TN_MATH(tanh, tanhf, tanh)
TN_MATH(floor, floorf, floor)
TN_MATH(trunc, truncf, trunc)
TN_MATH(erf, erff, erf)
TN_MATH(sin, sinf, sin)
TN_MATH(cos, cosf, cos)
TN_MATH(fabs, fabsf, fabs)
#undef TN_MATH
#define TN_MATH2(ours, f32_name, f64_name)                                    \
  __device__ inline f32 ours(f32 x, f32 y) { return ::f32_name(x, y); } \
  __device__ inline f64 ours(f64 x, f64 y) { return ::f64_name(x, y); }
TN_MATH2(pow, powf, pow)
TN_MATH2(fmod, fmodf, fmod)
#undef TN_MATH2
__device__ inline f32 fma(f32 a, f32 b, f32 c) { return ::fmaf(a, b, c); }
__device__ inline f64 fma(f64 a, f64 b, f64 c) { return ::fma(a, b, c); }
#ifdef __CUDA_ARCH__
__device__ inline f32 rsqrt(f32 x) { return ::rsqrtf(x); }
__device__ inline f64 rsqrt(f64 x) { return ::rsqrt(x); }
#else
template <class T>
__device__ inline T rsqrt(T x) { return T(1) / sqrt(x); }
#endif

// One input.
template <class T>
__device__ inline T neg(T x) {
  if constexpr (is_real<T>)
    return -x;
  else
    return static_cast<T>(0u - wrapping(x));
}
template <class T>
__device__ inline T abs(T x) {
  if constexpr (is_real<T>)
    return fabs(x);
  else if constexpr (is_signed<T>)
    return x < T(0) ? neg(x) : x;
  else
    return x;
}
template <class T>
__device__ inline T square(T x) {
  if constexpr (is_real<T>)
    return x * x;
  else
    return static_cast<T>(wrapping(x) * wrapping(x));
}
template <class T>
__device__ inline T reciprocal(T x) { return T(1) / x; }
template <class T>
__device__ inline T sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }
template <class T>
__device__ inline T relu(T x) {
  if constexpr (is_signed<T>)
    return x < T(0) ? T(0) : x;
  else
    return x;
}
template <class T>
__device__ inline T silu(T x) { return x * sigmoid(x); }
template <class T>
__device__ inline T sign(T x) {
  if (x > T(0)) return T(1);
  if constexpr (is_signed<T>) {
    if (x < T(0)) return static_cast<T>(-1);
  }
  return x;  // 0 or NaN
}
template <class T>
__device__ inline bool is_finite(T x) {
  if constexpr (is_real<T>)
    return x - x == T(0);
  else
    return true;
}
__device__ inline bool logical_not(bool x) { return !x; }
template <class T>
__device__ inline T scale(T x, f64 bias, f64 by) { return fma(x, static_cast<T>(by), static_cast<T>(bias)); }

// ½(1 + tanh z) is the logistic of 2z, which loses nothing on the left.
template <class T>
__device__ inline T gelu_turn(T x) {
  return T(1.5957691216057308) * fma(T(0.044715) * x * x, x, x);
}
template <class T>
__device__ inline T gelu(T x, int tanh_form) {
  if (tanh_form) return x * sigmoid(gelu_turn(x));
  return x * fma(T(0.5), erf(x * T(0.70710678118654752)), T(0.5));
}
template <class T>
__device__ inline T gelu_grad(T dy, T x, int tanh_form) {
  if (tanh_form) {
    const T turn = gelu_turn(x), gate = sigmoid(turn), bend = gate * sigmoid(-turn);
    if (bend == T(0)) return dy * gate;  // far out, where the slope may be infinite
    return dy * fma(x * bend, T(1.5957691216057308) * fma(T(0.134145) * x, x, T(1)), gate);
  }
  const T gate = fma(T(0.5), erf(x * T(0.70710678118654752)), T(0.5));
  return dy * fma(x * T(0.39894228040143268), exp(T(-0.5) * x * x), gate);
}

// Two inputs.
#define TN_WRAPS(name, op)                                        \
  template <class T>                                              \
  __device__ inline T name(T a, T b) {                            \
    if constexpr (is_real<T>)                                     \
      return a op b;                                              \
    else                                                          \
      return static_cast<T>(wrapping(a) op wrapping(b));          \
  }
TN_WRAPS(add, +)
TN_WRAPS(sub, -)
TN_WRAPS(mul, *)
#undef TN_WRAPS
template <class T>
__device__ inline T div(T a, T b) {
  if constexpr (is_real<T>) {
    return a / b;
  } else {
    if (b == T(0)) return T(0);
    if constexpr (is_signed<T>) {
      if (b == static_cast<T>(-1)) return neg(a);  // the least one wraps to itself
    }
    return static_cast<T>(a / b);
  }
}
template <class T>
__device__ inline T mod(T a, T b) {
  if constexpr (is_real<T>) {
    return fmod(a, b);
  } else {
    if (b == T(0)) return T(0);
    if constexpr (is_signed<T>) {
      if (b == static_cast<T>(-1)) return T(0);
    }
    return static_cast<T>(a % b);
  }
}
template <class T>
__device__ inline T max(T a, T b) { return a > b || a != a ? a : b; }
template <class T>
__device__ inline T min(T a, T b) { return a < b || a != a ? a : b; }
template <class T>
__device__ inline bool equal(T a, T b) { return a == b; }
template <class T>
__device__ inline bool not_equal(T a, T b) { return a != b; }
template <class T>
__device__ inline bool less(T a, T b) { return a < b; }
template <class T>
__device__ inline bool less_equal(T a, T b) { return a <= b; }
template <class T>
__device__ inline bool greater(T a, T b) { return a > b; }
template <class T>
__device__ inline bool greater_equal(T a, T b) { return a >= b; }
__device__ inline bool logical_and(bool a, bool b) { return a && b; }
__device__ inline bool logical_or(bool a, bool b) { return a || b; }
template <class T>
__device__ inline T relu_grad(T dy, T y) { return y > T(0) ? dy : T(0); }
template <class T>
__device__ inline T silu_grad(T dy, T x) {
  const T gate = sigmoid(x);
  return dy * (gate * fma(x, sigmoid(-x), T(1)));
}
template <class T>
__device__ inline T sigmoid_grad(T dy, T y) { return dy * (y * (T(1) - y)); }
template <class T>
__device__ inline T tanh_grad(T dy, T y) { return dy * fma(-y, y, T(1)); }

// Three inputs; fma is above.
template <class T>
__device__ inline T where(bool c, T a, T b) { return c ? a : b; }
template <class T>
__device__ inline T clip(T x, T lo, T hi) { return min(max(x, lo), hi); }

}  // namespace tn
