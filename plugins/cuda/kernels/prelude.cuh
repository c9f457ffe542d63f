// SPDX-License-Identifier: Apache-2.0
// prelude.cuh: what every device source stands on: types, how they lie in memory, and how they are moved.
//
// It includes nothing, since NVRTC has no include path, and asks nothing of its compiler but C++17 and CUDA's built-in
// variables; the same text is therefore C++ for a host that brings those. Compiled with --fmad=false (host:
// -ffp-contract=off): a product and a sum of two ops are rounded twice, fused or not, so that a fused group gives the bits
// of its parts. Where one rounding is wanted the source says fma.
// Invariant: an access of n bytes is made only at a multiple of n; read-only loads are made only from what no one writes.
#ifndef TN_ENTRY
#define TN_ENTRY(name, Params) \
  extern "C" __global__ void __launch_bounds__(256, 1) name(const __grid_constant__ Params p)
// Bound as for 384 threads, where a thread takes 168 registers at most: left to itself the compiler takes all there are.
#define TN_CROWDED_ENTRY(name, Params) \
  extern "C" __global__ void __launch_bounds__(384, 1) name(const __grid_constant__ Params p)
// Bound so that 768 threads find room on a multiprocessor, at 80 registers each, three blocks of 256 or six of 128: while one block
// waits for its threads, others load.
#define TN_LIGHT_ENTRY(name, Params) \
  extern "C" __global__ void __launch_bounds__(256, 3) name(const __grid_constant__ Params p)
#endif

namespace tn {

using u8 = unsigned char;
using i8 = signed char;
using u16 = unsigned short;
using i16 = short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;
using i64 = long long;
using f32 = float;
using f64 = double;

// How dtypes without a C++ type of their own lie in memory.
struct b8 { u8 bits; };
struct f16 { u16 bits; };
struct bf16 { u16 bits; };

#ifdef __CUDA_ARCH__
__device__ inline u32 bits_of(f32 x) { return __float_as_uint(x); }
__device__ inline u64 bits_of(f64 x) { return static_cast<u64>(__double_as_longlong(x)); }
__device__ inline f32 f32_of(u32 bits) { return __uint_as_float(bits); }
__device__ inline f64 f64_of(u64 bits) { return __longlong_as_double(static_cast<i64>(bits)); }
#else
__device__ inline u32 bits_of(f32 x) { u32 out; __builtin_memcpy(&out, &x, 4); return out; }
__device__ inline u64 bits_of(f64 x) { u64 out; __builtin_memcpy(&out, &x, 8); return out; }
__device__ inline f32 f32_of(u32 bits) { f32 out; __builtin_memcpy(&out, &bits, 4); return out; }
__device__ inline f64 f64_of(u64 bits) { f64 out; __builtin_memcpy(&out, &bits, 8); return out; }
#endif

// Halves to f32: exact.
__device__ inline f32 widen(bf16 x) { return f32_of(static_cast<u32>(x.bits) << 16); }
#ifdef __CUDA_ARCH__
__device__ inline f32 widen(f16 x) {
  f32 out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(x.bits));
  return out;
}
#else
__device__ inline f32 widen(f16 x) {
  const u32 sign = static_cast<u32>(x.bits & 0x8000u) << 16, size = x.bits & 0x7FFFu;
  if (size >= 0x7C00u) return f32_of(sign | 0x7F800000u | (size & 0x3FFu) << 13);
  // 2^112 moves the exponent from one bias to the other, subnormals included.
  return f32_of(sign | bits_of(f32_of(size << 13) * 0x1p112f));
}
#endif

// f32 to halves: to nearest even, once.
template <class T>
__device__ inline T narrow(f32 x);

#ifdef __CUDA_ARCH__
template <>
__device__ inline f16 narrow<f16>(f32 x) {
  f16 out;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
  return out;
}
#else
template <>
__device__ inline f16 narrow<f16>(f32 x) {
  const u32 bits = bits_of(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
  if (size > 0x7F800000u) return {static_cast<u16>(sign | 0x7E00u)};
  if (size >= 0x47800000u) return {static_cast<u16>(sign | 0x7C00u)};  // 2^16 and beyond
  if (size < 0x38800000u) {                                            // below 2^-14: adding ½ aligns the digits
    return {static_cast<u16>(sign | (bits_of(f32_of(size) + 0.5f) - 0x3F000000u))};
  }
  return {static_cast<u16>(sign | (size - 0x38000000u + 0xFFFu + (size >> 13 & 1u)) >> 13)};
}
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <>
__device__ inline bf16 narrow<bf16>(f32 x) {
  bf16 out;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
  return out;
}
#else
template <>
__device__ inline bf16 narrow<bf16>(f32 x) {
  const u32 bits = bits_of(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<u16>(bits >> 16 | 0x40u)};
  return {static_cast<u16>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16)};
}
#endif

// What a stored element is computed in (its register type), and back. Halves compute in f32, bool in bool.
template <class T>
struct RegisterOf { using type = T; };
template <>
struct RegisterOf<b8> { using type = bool; };
template <>
struct RegisterOf<f16> { using type = f32; };
template <>
struct RegisterOf<bf16> { using type = f32; };
template <class T>
using Register = typename RegisterOf<T>::type;

__device__ inline bool widen(b8 x) { return x.bits != 0; }
template <class T>
__device__ inline T widen(T x) { return x; }

template <class T>
struct Narrow {
  __device__ static T from(Register<T> x) { return x; }
};
template <>
struct Narrow<b8> {
  __device__ static b8 from(bool x) { return {static_cast<u8>(x ? 1 : 0)}; }
};
template <>
struct Narrow<f16> {
  __device__ static f16 from(f32 x) { return narrow<f16>(x); }
};
template <>
struct Narrow<bf16> {
  __device__ static bf16 from(f32 x) { return narrow<bf16>(x); }
};
template <class T>
__device__ inline T stored(Register<T> x) { return Narrow<T>::from(x); }
// The value rounded to what T holds: what ops on halves give.
template <class T>
__device__ inline Register<T> rounded(Register<T> x) { return widen(Narrow<T>::from(x)); }

// n elements side by side, in registers.
template <class T, int n>
struct Lanes { T at[n]; };

// Words of 1 … 16 bytes, aligned to their size.
template <int bytes>
struct Word;
template <>
struct Word<1> { u8 a; };
template <>
struct Word<2> { u16 a; };
template <>
struct Word<4> { u32 a; };
template <>
struct alignas(8) Word<8> { u32 a, b; };
template <>
struct alignas(16) Word<16> { u32 a, b, c, d; };

#ifdef __CUDA_ARCH__
// Through the read-only path, past L1: each byte is read once.
__device__ inline Word<16> load_read_only(const Word<16>* from) {
  Word<16> out;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
      : "=r"(out.a), "=r"(out.b), "=r"(out.c), "=r"(out.d)
      : "l"(from));
  return out;
}
// The same by way of L1: other threads of the multiprocessor read it, too.
__device__ inline Word<16> load_again(const Word<16>* from) {
  Word<16> out;
  asm("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(out.a), "=r"(out.b), "=r"(out.c), "=r"(out.d) : "l"(from));
  return out;
}
__device__ inline Word<8> load_read_only(const Word<8>* from) {
  Word<8> out;
  asm("ld.global.nc.v2.u32 {%0,%1}, [%2];" : "=r"(out.a), "=r"(out.b) : "l"(from));
  return out;
}
__device__ inline Word<4> load_read_only(const Word<4>* from) { return {__ldg(&from->a)}; }
__device__ inline Word<2> load_read_only(const Word<2>* from) { return {__ldg(&from->a)}; }
__device__ inline Word<1> load_read_only(const Word<1>* from) { return {__ldg(&from->a)}; }
#else
template <int bytes>
__device__ inline Word<bytes> load_read_only(const Word<bytes>* from) { return *from; }
__device__ inline Word<16> load_again(const Word<16>* from) { return *from; }
#endif

template <int bytes>
__device__ inline void store_word(Word<bytes>* to, const Word<bytes>& word) { *to = word; }
#ifdef __CUDA_ARCH__
// In words as they are: left to itself the compiler takes some of them apart into the 64-bit values they were made of.
template <>
__device__ inline void store_word(Word<16>* to, const Word<16>& word) {
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};"
               :
               : "l"(to), "r"(word.a), "r"(word.b), "r"(word.c), "r"(word.d)
               : "memory");
}
template <>
__device__ inline void store_word(Word<8>* to, const Word<8>& word) {
  asm volatile("st.global.v2.u32 [%0], {%1,%2};" : : "l"(to), "r"(word.a), "r"(word.b) : "memory");
}
#endif

// n elements as words of `bytes` each; together they fill whole words.
template <class T, int n, int bytes>
union Packed {
  static_assert(n * sizeof(T) % bytes == 0);
  Lanes<T, n> lanes;
  Word<bytes> words[n * sizeof(T) / bytes];
};

// n elements from `from` on, a multiple of `bytes`.
template <int n, int bytes, bool read_only, class T>
__device__ inline Lanes<T, n> load(const T* from) {
  Packed<T, n, bytes> out;
  const Word<bytes>* const words = reinterpret_cast<const Word<bytes>*>(from);
#pragma unroll
  for (int i = 0; i < static_cast<int>(n * sizeof(T) / bytes); ++i)
    out.words[i] = read_only ? load_read_only(words + i) : words[i];
  return out.lanes;
}

// n elements that nobody writes and others read as well, as words of 16 bytes.
template <int n, int bytes, class T>
__device__ inline Lanes<T, n> load_again(const T* from) {
  static_assert(bytes == 16);
  Packed<T, n, bytes> out;
#pragma unroll
  for (int i = 0; i < static_cast<int>(n * sizeof(T) / bytes); ++i)
    out.words[i] = load_again(reinterpret_cast<const Word<bytes>*>(from) + i);
  return out.lanes;
}

template <int n, int bytes, class T>
__device__ inline void store(T* to, const Lanes<T, n>& values) {
  Packed<T, n, bytes> in;
  in.lanes = values;
  Word<bytes>* const words = reinterpret_cast<Word<bytes>*>(to);
#pragma unroll
  for (int i = 0; i < static_cast<int>(n * sizeof(T) / bytes); ++i) store_word(words + i, in.words[i]);
}

// n elements, each `step` from the one before.
template <int n, bool read_only, class T>
__device__ inline Lanes<T, n> load_steps(const T* from, u64 step) {
  Lanes<T, n> out;
#pragma unroll
  for (int i = 0; i < n; ++i) out.at[i] = load<1, sizeof(T), read_only>(from + step * i).at[0];
  return out;
}
template <int n, class T>
__device__ inline void store_steps(T* to, u64 step, const Lanes<T, n>& values) {
#pragma unroll
  for (int i = 0; i < n; ++i) to[step * i] = values.at[i];
}

}  // namespace tn
