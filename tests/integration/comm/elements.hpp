// SPDX-License-Identifier: Apache-2.0
// elements.hpp: what ranks bring to a collective, and what must come out, computed in double (integers in int64_t).
//
// Values are small whole numbers that every dtype holds, and whose sums and products (of up to 13 ranks) f32 holds, so a
// result is right or wrong to the bit; means of floats alone are rounded, once.
// Invariant: a value follows from (seed, rank, place), so each rank knows what all others bring.
#pragma once

#include <tenon/author/half.hpp>
#include <tenon/comm.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace comm_test {

using namespace tenon;

inline constexpr DType reducible[] = {boolean, u8, i8, i32, i64, f16, bf16, f32, f64};
inline constexpr Reduction reductions[] = {Reduction::sum, Reduction::prod, Reduction::min,
                                           Reduction::max, Reduction::avg,  Reduction::premul_sum};

inline bool is_float(DType dtype) { return dtype == f16 || dtype == bf16 || dtype == f32 || dtype == f64; }
inline bool has_meaning(DType dtype, Reduction how) {
  return dtype != boolean || (how != Reduction::avg && how != Reduction::premul_sum);
}

// A value in -2 … 2 without zero (products stay interesting), or 0 and 1 for bool; unsigned ones in 1 … 3.
inline double value(DType dtype, uint64_t seed, uint32_t rank, uint64_t place) {
  uint64_t h = seed * 0x9E3779B97F4A7C15u + rank * 0xBF58476D1CE4E5B9u + place * 0x94D049BB133111EBu;
  h ^= h >> 31;
  h *= 0x9E3779B97F4A7C15u;
  h ^= h >> 29;
  if (dtype == boolean) return h % 5 == 0 ? 0 : 1;
  if (dtype == u8) return static_cast<double>(1 + h % 3);
  constexpr double choices[] = {-2, -1, 1, 2, 1, -1};
  return choices[h % 6];
}
// The factor of a rank in a premul_sum.
inline double factor(uint32_t rank) { return static_cast<double>(rank % 3) + 1; }

template <class T>
void put(std::byte* to, T x) {
  std::memcpy(to, &x, sizeof x);
}
template <class T>
T got(const std::byte* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

// `x` as `dtype` keeps it; integers wrap.
inline void write(DType dtype, std::byte* to, double x) {
  const auto whole = static_cast<int64_t>(x);
  switch (dtype) {
    case boolean:
      return put(to, static_cast<uint8_t>(x != 0));
    case u8:
      return put(to, static_cast<uint8_t>(whole));
    case i8:
      return put(to, static_cast<int8_t>(whole));
    case i32:
      return put(to, static_cast<int32_t>(whole));
    case i64:
      return put(to, whole);
    case f16:
      return put(to, author::to_f16(static_cast<float>(x)));
    case bf16:
      return put(to, author::to_bf16(static_cast<float>(x)));
    case f32:
      return put(to, static_cast<float>(x));
    default:
      return put(to, x);
  }
}

// The bytes of `count` elements that `rank` brings, from `place` on.
inline std::vector<std::byte> brought(DType dtype, uint64_t seed, uint32_t rank, uint64_t count,
                                      uint64_t place = 0) {
  std::vector<std::byte> out(bytes(dtype, count));
  const uint64_t width = bytes(dtype, 1);
  for (uint64_t i = 0; i < count; ++i) write(dtype, &out[i * width], value(dtype, seed, rank, place + i));
  return out;
}

inline double joined(DType dtype, Reduction how, double a, double b) {
  switch (how) {
    case Reduction::prod:
      return a * b;
    case Reduction::min:
      return std::min(a, b);
    case Reduction::max:
      return std::max(a, b);
    default:
      return dtype == boolean ? std::max(a, b) : a + b;
  }
}

// What element `place` of a reduction over `size` ranks is.
inline double reduced(DType dtype, Reduction how, uint64_t seed, uint32_t size, uint64_t place) {
  double sum = 0;
  for (uint32_t r = 0; r < size; ++r) {
    const double x = value(dtype, seed, r, place) * (how == Reduction::premul_sum ? factor(r) : 1);
    sum = r == 0 ? x : joined(dtype, how, sum, x);
  }
  if (how != Reduction::avg) return sum;
  if (is_float(dtype) && dtype != f64)
    return static_cast<double>(static_cast<float>(sum) / static_cast<float>(size));
  return is_float(dtype) ? sum / size : std::trunc(sum / size);
}

inline std::vector<std::byte> all_reduced(DType dtype, Reduction how, uint64_t seed, uint32_t size,
                                          uint64_t count, uint64_t place = 0) {
  std::vector<std::byte> out(bytes(dtype, count));
  const uint64_t width = bytes(dtype, 1);
  for (uint64_t i = 0; i < count; ++i)
    write(dtype, &out[i * width], reduced(dtype, how, seed, size, place + i));
  return out;
}

}  // namespace comm_test
