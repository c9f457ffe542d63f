// SPDX-License-Identifier: Apache-2.0
// sort.cuh: a stable sort of small numbers by eight of their bits, over many blocks of 256 threads.
//
// Three launches make one pass. `count_digits` counts each block's digits, `sum_digits` turns a digit's counts into what blocks
// before have of it, `place_digits` moves every element behind those that are smaller or stood before it. Atomics count whole
// numbers in shared memory, in whatever order: a count is a count.
// Invariant: equal inputs are placed equally; every thread of a block takes part in every exchange.

namespace tn {

__device__ inline u32 digit_of(u32 key, int shift) { return key >> shift & 255u; }

// counts[digit][block] of the block's elements begin … end - 1.
template <class Key>
__device__ inline void count_digits(const Key& key, u32 begin, u32 end, int shift, u32* counts) {
  __shared__ u32 counted[256];
  counted[threadIdx.x] = 0;
  __syncthreads();
  for (u32 i = begin + threadIdx.x; i < end; i += 256) atomicAdd(&counted[digit_of(key(i), shift)], 1u);
  __syncthreads();
  counts[u64(threadIdx.x) * gridDim.x + blockIdx.x] = counted[threadIdx.x];
}

// The sum of x over the threads before this one; `all` becomes that over all 256.
__device__ inline u32 sum_before(u32 x, u32* shared, u32& all) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 sum = x;
#pragma unroll
  for (u32 step = 1; step < 32; step *= 2) {
    const u32 below = __shfl_up_sync(0xFFFFFFFFu, sum, step);
    if (lane >= step) sum += below;
  }
  __syncthreads();
  if (lane == 31) shared[warp] = sum;
  __syncthreads();
  u32 before = 0;
  all = 0;
#pragma unroll
  for (u32 w = 0; w < 8; ++w) {
    if (w < warp) before += shared[w];
    all += shared[w];
  }
  return before + sum - x;
}

// A block for each digit: counts[digit][block] becomes the sum over the blocks before, totals[digit] that over all.
__device__ inline void sum_digits(u32* counts, u32* totals, u32 blocks) {
  __shared__ u32 shared[8];
  u32* const mine = counts + u64(blockIdx.x) * blocks;
  u32 done = 0;
  for (u32 first = 0; first < blocks; first += 256) {
    const u32 at = first + threadIdx.x;
    u32 all;
    const u32 before = sum_before(at < blocks ? mine[at] : 0, shared, all);
    if (at < blocks) mine[at] = done + before;
    done += all;
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = done;
}

// The lanes of the warp that are live and have this digit.
__device__ inline u32 alike(u32 digit, bool live) {
  u32 out = __ballot_sync(0xFFFFFFFFu, live);
#pragma unroll
  for (int bit = 0; bit < 8; ++bit) {
    const bool set = (digit >> bit & 1u) != 0;
    const u32 lanes = __ballot_sync(0xFFFFFFFFu, set);
    out &= set ? lanes : ~lanes;
  }
  return out;
}

// Places the block's elements, 256 at a time and in their order.
template <class Key, class Element>
__device__ inline void place_digits(const Key& key, const Element& element, u32 begin, u32 end, int shift, const u32* counts,
                                    const u32* totals, u32* keys, u32* elements) {
  __shared__ u32 next[256], shared[8], of_warp[8][256];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 all;
  next[threadIdx.x] = sum_before(totals[threadIdx.x], shared, all) + counts[u64(threadIdx.x) * gridDim.x + blockIdx.x];
  for (u32 first = begin; first < end; first += 256) {
#pragma unroll
    for (int w = 0; w < 8; ++w) of_warp[w][threadIdx.x] = 0;
    const u32 i = first + threadIdx.x;
    const bool live = i < end;
    const u32 mine = live ? key(i) : 0, digit = digit_of(mine, shift), peers = alike(digit, live),
              below = __popc(peers & ((1u << lane) - 1));
    __syncthreads();
    if (live && below == 0) of_warp[warp][digit] = __popc(peers);
    __syncthreads();
    if (live) {
      u32 at = next[digit] + below;
      for (u32 w = 0; w < warp; ++w) at += of_warp[w][digit];
      keys[at] = mine;
      elements[at] = element(i);
    }
    __syncthreads();
    u32 placed = 0;
#pragma unroll
    for (int w = 0; w < 8; ++w) placed += of_warp[w][threadIdx.x];
    next[threadIdx.x] += placed;
  }
}

// The first of `count` sorted keys that is not below `key`.
__device__ inline u32 first_at_least(const u32* keys, u32 count, u32 key) {
  u32 begin = 0, end = count;
  while (begin < end) {
    const u32 middle = begin + (end - begin) / 2;
    if (keys[middle] < key)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

}  // namespace tn
