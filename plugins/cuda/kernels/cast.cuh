// SPDX-License-Identifier: Apache-2.0
// cast.cuh: from any register type to any stored type.
//
// Invariant: one rounding, whatever the pair: what is wider than f32 goes to halves by way of an f32 rounded to odd, which
// keeps in its last bit that something was lost.

namespace tn {

// Leading zeros of a number that is not 0.
__device__ inline int leading_zeros(u64 x) {
#ifdef __CUDA_ARCH__
  return __clzll(static_cast<i64>(x));
#else
  return __builtin_clzll(x);
#endif
}

__device__ inline f32 to_odd(u64 size) {
  const int drop = size == 0 ? 0 : 40 - leading_zeros(size);  // beyond 24 digits
  if (drop <= 0) return static_cast<f32>(size);
  const u64 kept = size >> drop;
  const u32 digits = static_cast<u32>(kept | ((kept << drop) != size ? 1u : 0u));
  return static_cast<f32>(digits) * static_cast<f32>(u64(1) << drop);
}
__device__ inline f32 to_odd(f64 x) {
  const f32 near = static_cast<f32>(x);
  if (static_cast<f64>(near) == x || x != x) return near;
  const bool past = fabs(static_cast<f64>(near)) > fabs(x);  // rounded away from 0: one step back
  return f32_of((bits_of(near) - (past ? 1u : 0u)) | 1u);
}

template <class T>
struct Limits;
#define TN_LIMITS(T, low, high)              \
  template <>                                \
  struct Limits<T> {                         \
    static constexpr T least = low, most = high; \
  };
TN_LIMITS(u8, 0, 0xFF)
TN_LIMITS(i8, -0x80, 0x7F)
TN_LIMITS(u16, 0, 0xFFFF)
TN_LIMITS(i16, -0x8000, 0x7FFF)
TN_LIMITS(u32, 0, 0xFFFFFFFFu)
TN_LIMITS(i32, -0x7FFFFFFF - 1, 0x7FFFFFFF)
TN_LIMITS(u64, 0, 0xFFFFFFFFFFFFFFFFull)
TN_LIMITS(i64, -0x7FFFFFFFFFFFFFFFll - 1, 0x7FFFFFFFFFFFFFFFll)
#undef TN_LIMITS

// Toward zero, cut to what T holds; NaN is 0. `most` + 1 is a power of two, which f32 and f64 hold exactly.
template <class T, class F>
__device__ inline T saturated(F x) {
  constexpr F past = F(2) * static_cast<F>(Limits<T>::most / 2 + 1), low = static_cast<F>(Limits<T>::least);
  if (x >= past) return Limits<T>::most;
  if (x < low) return Limits<T>::least;
  return x == x ? static_cast<T>(x) : T(0);
}

// From register type F to what T computes in, rounded to T.
template <class T, class F>
struct Cast {
  __device__ static T from(F x) {
    if constexpr (!is_real<T> && is_real<F>)
      return saturated<T>(x);
    else
      return static_cast<T>(x);
  }
};
template <class F>
struct Cast<b8, F> {
  __device__ static bool from(F x) { return x != F(0); }
};
template <class T, class F>
struct CastToHalf {
  __device__ static f32 from(F x) {
    if constexpr (sizeof(F) < 4 || sizeof(F) == sizeof(f32) && is_real<F>) {
      return rounded<T>(static_cast<f32>(x));
    } else if constexpr (is_real<F>) {
      return rounded<T>(to_odd(x));
    } else {
      // Wrapping: the least number's size is what its negative is without a sign.
      const f32 size = rounded<T>(to_odd(static_cast<u64>(wrapping(abs(x)))));
      return negative(x) ? -size : size;
    }
  }
  __device__ static bool negative(F x) {
    if constexpr (is_signed<F>)
      return x < F(0);
    else
      return false;
  }
};
template <class F>
struct Cast<f16, F> : CastToHalf<f16, F> {};
template <class F>
struct Cast<bf16, F> : CastToHalf<bf16, F> {};

template <class T, class F>
__device__ inline Register<T> cast(F x) { return Cast<T, F>::from(x); }

}  // namespace tn
