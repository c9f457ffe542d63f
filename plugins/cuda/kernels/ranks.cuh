// SPDX-License-Identifier: Apache-2.0
// ranks.cuh: one reduction over the ranks of a communicator: every member's elements joined in the order of members, then
// written to one member or to all.
//
// Memory-bound: n elements of m members move (m + outs) · n elements. Halves are joined in f32 and rounded once.
// Invariant: an element is written by the thread that has read it from every member, so results may lie where elements lay.
#include "ranks.hpp"

namespace tn {

using tenon::cuda::RanksParameters;
constexpr u32 most_members = 16;

struct Any {
  __device__ static bool join(bool a, bool b) { return a || b; }
};
struct All {
  __device__ static bool join(bool a, bool b) { return a && b; }
};

// A factor from the host: whole numbers are cut towards zero.
template <class R>
__device__ inline R factor_from(f64 x) {
  if constexpr (is_real<R>)
    return static_cast<R>(x);
  else
    return static_cast<R>(static_cast<i64>(x));
}

// What the members have told, once for each block of threads.
template <class T>
struct Told {
  u64 in[most_members], out[most_members];
  Register<T> factor[most_members];
  bool stands, alike;

  __device__ void learn(const RanksParameters& p, bool scaled) {
    const Exchange exchange{p.slot, p.members};
    const u32 m = threadIdx.x;
    if (m == 0) stands = exchange.stands(p.index);
    __syncthreads();
    if (!stands || m >= p.members) return;
    in[m] = exchange.block(m, p.me) + p.first * sizeof(T);
    out[m] = exchange.out(m) + p.first * sizeof(T);
    if (!scaled) return;
    const u64 at = exchange.factor_at(m);
    factor[m] = at != 0 ? widen(*pointer<const T>(at)) : factor_from<Register<T>>(exchange.factor(m));
  }
  // Whether all lie alike to a multiple of 16.
  __device__ void compare(const RanksParameters& p) {
    u64 odd = 0;
    for (u32 m = 0; m < p.members; ++m) odd |= in[m] ^ in[0];
    for (u32 m = p.out_begin; m < p.out_end; ++m) odd |= out[m] ^ in[0];
    alike = odd % 16 == 0;
  }
};

template <class Join, bool scaled, bool mean, int n, class T>
__device__ inline void join_ranks(const RanksParameters& p, const Told<T>& told, u64 i) {
  using R = Register<T>;
  R sum[n];
#pragma unroll 4
  for (u32 m = 0; m < p.members; ++m) {
    const Lanes<T, n> brought = load<n, n * sizeof(T), false>(pointer<const T>(told.in[m]) + i);
#pragma unroll
    for (int l = 0; l < n; ++l) {
      R x = widen(brought.at[l]);
      if constexpr (scaled) x = mul(told.factor[m], x);
      sum[l] = m == 0 ? x : Join::join(sum[l], x);
    }
  }
  Lanes<T, n> result;
#pragma unroll
  for (int l = 0; l < n; ++l) {
    if constexpr (mean) sum[l] = div(sum[l], static_cast<R>(p.members));
    result.at[l] = stored<T>(sum[l]);
  }
  for (u32 m = p.out_begin; m < p.out_end; ++m)
    store<n, n * sizeof(T)>(pointer<T>(told.out[m]) + i, result);
}

template <class T, class Join, bool scaled, bool mean>
__device__ inline void reduce_ranks(const RanksParameters& p) {
  __shared__ Told<T> told;
  told.learn(p, scaled);
  __syncthreads();
  if (!told.stands) return;
  if (threadIdx.x == 0) told.compare(p);
  __syncthreads();
  constexpr int wide = 16 / sizeof(T);
  const u64 first = u64(blockIdx.x) * blockDim.x + threadIdx.x, step = u64(gridDim.x) * blockDim.x;
  // Single elements up to the first multiple of 16, then words of 16, then single elements again.
  const u64 up = (16 - told.in[0] % 16) % 16 / sizeof(T), head = told.alike && up < p.count ? up : p.count;
  const u64 words = (p.count - head) / wide, tail = head + words * wide;
  for (u64 i = first; i < words; i += step) join_ranks<Join, scaled, mean, wide>(p, told, head + i * wide);
  for (u64 i = first; i < head; i += step) join_ranks<Join, scaled, mean, 1>(p, told, i);
  for (u64 i = tail + first; i < p.count; i += step) join_ranks<Join, scaled, mean, 1>(p, told, i);
}

}  // namespace tn
