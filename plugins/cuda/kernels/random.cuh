// SPDX-License-Identifier: Apache-2.0
// random.cuh: Philox4x32-10, and what is drawn with it.
//
// The block of element i has counter offset + i, low word first, and key = seed + attribute `key` · 0x9E3779B97F4A7C15.
// Its first word is the element's draw; a normal number takes the second as its angle.
// Invariant: a draw depends on seed, offset, key and the element's logical index alone, never on how a launch is cut.

namespace tn {

struct Block { u32 x, y, z, w; };

// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3".
__device__ inline Block philox(u64 seed, u64 offset, u64 element, u64 key) {
  const u64 counter = offset + element, mixed = seed + key * 0x9E3779B97F4A7C15ull;
  Block b{static_cast<u32>(counter), static_cast<u32>(counter >> 32), 0, 0};
  u32 low = static_cast<u32>(mixed), high = static_cast<u32>(mixed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 first = u64(0xD2511F53u) * b.x, second = u64(0xCD9E8D57u) * b.z;
    b = {static_cast<u32>(second >> 32) ^ b.y ^ low, static_cast<u32>(second),
         static_cast<u32>(first >> 32) ^ b.w ^ high, static_cast<u32>(first)};
    low += 0x9E3779B9u;
    high += 0xBB67AE85u;
  }
  return b;
}

// `threshold` is rate · 2³², rounded up; `gain` 1/(1 − rate).
template <class T>
__device__ inline T dropout(T x, u64 seed, u64 offset, u64 element, u64 key, u64 threshold, f64 gain) {
  return philox(seed, offset, element, key).x >= threshold ? x * static_cast<T>(gain) : T(0);
}

template <class T>
__device__ inline T random_uniform(u64 seed, u64 offset, u64 element, u64 key) {
  return static_cast<T>(philox(seed, offset, element, key).x >> 8) * T(0x1p-24);
}

// ln((word + 1) · 2⁻³²). Near 1 the distance to 1 is what counts, and it is a whole number of 2⁻³².
__device__ inline f32 log_draw(u32 word, f32) {
  if (word >> 31) return log1p(-static_cast<f32>(~word) * 0x1p-32f);
  return log((static_cast<f32>(word) + 1.0f) * 0x1p-32f);
}
__device__ inline f64 log_draw(u32 word, f64) { return log((word + 1.0) * 0x1p-32); }
// cos(2π · word · 2⁻³²)
#ifdef __CUDA_ARCH__
__device__ inline f32 cos_turn(u32 word, f32) { return ::cospif(static_cast<f32>(word) * 0x1p-31f); }
__device__ inline f64 cos_turn(u32 word, f64) { return ::cospi(word * 0x1p-31); }
#else
template <class T>
__device__ inline T cos_turn(u32 word, T) { return static_cast<T>(cos(6.283185307179586477 * (word * 0x1p-32))); }
#endif
template <class T>
__device__ inline T random_normal(u64 seed, u64 offset, u64 element, u64 key) {
  const Block b = philox(seed, offset, element, key);
  return sqrt(T(-2) * log_draw(b.x, T())) * cos_turn(b.y, T());
}

}  // namespace tn
