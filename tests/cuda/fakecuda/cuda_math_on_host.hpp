// SPDX-License-Identifier: Apache-2.0
// cuda_math_on_host.hpp: the vector types, loads, bit operations and functions that CUDA C++ has without an include.
//
// Invariant: a function gives what the host's mathematics library gives, which is correctly rounded or nearly so; what a
// GPU's own approximation would give is not imitated.
#pragma once

#define FAKECUDA_VECTORS(type, name)                                                 \
  struct name##1 {                                                                   \
    type x;                                                                          \
  };                                                                                 \
  struct alignas(2 * sizeof(type)) name##2 {                                         \
    type x, y;                                                                       \
  };                                                                                 \
  struct name##3 {                                                                   \
    type x, y, z;                                                                    \
  };                                                                                 \
  struct alignas(sizeof(type) < 4 ? 4 * sizeof(type) : 16) name##4 {                 \
    type x, y, z, w;                                                                 \
  };                                                                                 \
  static inline name##1 make_##name##1(type x) { return {x}; }                       \
  static inline name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
FAKECUDA_VECTORS(signed char, char)
FAKECUDA_VECTORS(unsigned char, uchar)
FAKECUDA_VECTORS(short, short)
FAKECUDA_VECTORS(unsigned short, ushort)
FAKECUDA_VECTORS(int, int)
FAKECUDA_VECTORS(unsigned, uint)
FAKECUDA_VECTORS(long long, longlong)
FAKECUDA_VECTORS(unsigned long long, ulonglong)
FAKECUDA_VECTORS(float, float)
FAKECUDA_VECTORS(double, double)
#undef FAKECUDA_VECTORS

// Loads and stores with advice.
#define FAKECUDA_LOAD(name)           \
  template <class T>                  \
  static inline T name(const T* at) { \
    return *at;                       \
  }
#define FAKECUDA_STORE(name)                \
  template <class T>                        \
  static inline void name(T* at, T value) { \
    *at = value;                            \
  }
FAKECUDA_LOAD(__ldg)
FAKECUDA_LOAD(__ldcs)
FAKECUDA_LOAD(__ldca)
FAKECUDA_LOAD(__ldcg)
FAKECUDA_STORE(__stcs)
FAKECUDA_STORE(__stcg)
FAKECUDA_STORE(__stwb)
#undef FAKECUDA_LOAD
#undef FAKECUDA_STORE

// Bits.
#define FAKECUDA_BITS(name, to, from)           \
  static inline to name(from value) {           \
    to out;                                     \
    static_assert(sizeof out == sizeof value);  \
    __builtin_memcpy(&out, &value, sizeof out); \
    return out;                                 \
  }
FAKECUDA_BITS(__float_as_int, int, float)
FAKECUDA_BITS(__float_as_uint, unsigned, float)
FAKECUDA_BITS(__int_as_float, float, int)
FAKECUDA_BITS(__uint_as_float, float, unsigned)
FAKECUDA_BITS(__double_as_longlong, long long, double)
FAKECUDA_BITS(__longlong_as_double, double, long long)
#undef FAKECUDA_BITS
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
static inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
  unsigned out = 0;
  for (int i = 0; i < 32; ++i) out |= (x >> i & 1) << (31 - i);
  return out;
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
static inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}

// The mathematics library.
#define FAKECUDA_1(name)                                   \
  extern "C" float name##f(float) noexcept;                \
  static inline float name(float x) { return name##f(x); } \
  extern "C" double name(double) noexcept
#define FAKECUDA_2(name)                                               \
  extern "C" float name##f(float, float) noexcept;                     \
  static inline float name(float x, float y) { return name##f(x, y); } \
  extern "C" double name(double, double) noexcept
FAKECUDA_1(exp);
FAKECUDA_1(exp2);
FAKECUDA_1(expm1);
FAKECUDA_1(log);
FAKECUDA_1(log2);
FAKECUDA_1(log10);
FAKECUDA_1(log1p);
FAKECUDA_1(sqrt);
FAKECUDA_1(cbrt);
FAKECUDA_1(sin);
FAKECUDA_1(cos);
FAKECUDA_1(tan);
FAKECUDA_1(asin);
FAKECUDA_1(acos);
FAKECUDA_1(atan);
FAKECUDA_1(sinh);
FAKECUDA_1(cosh);
FAKECUDA_1(tanh);
FAKECUDA_1(asinh);
FAKECUDA_1(acosh);
FAKECUDA_1(atanh);
FAKECUDA_1(erf);
FAKECUDA_1(erfc);
FAKECUDA_1(tgamma);
FAKECUDA_1(lgamma);
FAKECUDA_1(floor);
FAKECUDA_1(ceil);
FAKECUDA_1(trunc);
FAKECUDA_1(round);
FAKECUDA_1(rint);
FAKECUDA_1(nearbyint);
FAKECUDA_1(fabs);
FAKECUDA_1(logb);
FAKECUDA_2(pow);
FAKECUDA_2(fmod);
FAKECUDA_2(remainder);
FAKECUDA_2(fmin);
FAKECUDA_2(fmax);
FAKECUDA_2(fdim);
FAKECUDA_2(copysign);
FAKECUDA_2(atan2);
FAKECUDA_2(hypot);
FAKECUDA_2(nextafter);
#undef FAKECUDA_1
#undef FAKECUDA_2
extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
static inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
extern "C" double ldexp(double, int) noexcept;
extern "C" float ldexpf(float, int) noexcept;
extern "C" double frexp(double, int*) noexcept;
extern "C" float frexpf(float, int*) noexcept;
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline float rsqrtf(float x) { return static_cast<float>(1 / sqrt(static_cast<double>(x))); }
static inline void sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
static inline void sincos(double x, double* s, double* c) { *s = sin(x), *c = cos(x); }
static inline double sinpi(double x) { return sin(fmod(x, 2.0) * 3.14159265358979323846); }
static inline double cospi(double x) { return cos(fmod(x, 2.0) * 3.14159265358979323846); }
static inline float sinpif(float x) { return static_cast<float>(sinpi(static_cast<double>(x))); }
static inline float cospif(float x) { return static_cast<float>(cospi(static_cast<double>(x))); }
static inline void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
static inline void sincospi(double x, double* s, double* c) { *s = sinpi(x), *c = cospi(x); }
static inline float exp10f(float x) { return static_cast<float>(pow(10.0, static_cast<double>(x))); }
template <class T>
static inline bool isnan(T x) {
  return __builtin_isnan(x);
}
template <class T>
static inline bool isinf(T x) {
  return __builtin_isinf(x);
}
template <class T>
static inline bool isfinite(T x) {
  return __builtin_isfinite(x);
}
template <class T>
static inline bool signbit(T x) {
  return __builtin_signbit(x);
}

// Operations with a stated rounding (to nearest even, as the host rounds), and the fast forms.
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
#define FAKECUDA_ROUNDED(name, op)                                        \
  static inline float __f##name##_rn(float a, float b) { return a op b; } \
  static inline double __d##name##_rn(double a, double b) { return a op b; }
FAKECUDA_ROUNDED(add, +)
FAKECUDA_ROUNDED(sub, -)
FAKECUDA_ROUNDED(mul, *)
FAKECUDA_ROUNDED(div, /)
#undef FAKECUDA_ROUNDED
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline double __dsqrt_rn(double x) { return sqrt(x); }
static inline float __frcp_rn(float x) { return 1 / x; }
static inline float __frsqrt_rn(float x) { return rsqrtf(x); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __expf(float x) { return expf(x); }
static inline float __logf(float x) { return logf(x); }
static inline float __sinf(float x) { return sinf(x); }
static inline float __cosf(float x) { return cosf(x); }
static inline float __powf(float x, float y) { return powf(x, y); }
static inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
static inline int __float2int_rn(float x) { return static_cast<int>(rintf(x)); }
static inline int __float2int_rz(float x) { return static_cast<int>(x); }
static inline float __int2float_rn(int x) { return static_cast<float>(x); }
static inline float __double2float_rn(double x) { return static_cast<float>(x); }
