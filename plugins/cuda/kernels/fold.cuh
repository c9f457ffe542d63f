// SPDX-License-Identifier: Apache-2.0
// fold.cuh: what a reduction folds with, and how the threads of a block bring their parts together.
//
// A fold has `none`, the result of nothing, and `join` of two parts. Parts are joined in an order that the launch's shape
// fixes, so equal launches give equal bits; nothing is atomic.
// Invariant: every thread of a block takes part in every exchange.

namespace tn {

template <class T>
__device__ inline T lowest() {
  if constexpr (is_real<T>)
    return sizeof(T) == 4 ? static_cast<T>(f32_of(0xFF800000u)) : static_cast<T>(f64_of(0xFFF0000000000000ull));
  else
    return Limits<T>::least;
}
template <class T>
__device__ inline T highest() {
  if constexpr (is_real<T>)
    return -lowest<T>();
  else
    return Limits<T>::most;
}

struct Sum {
  template <class T>
  __device__ static T none() { return T(0); }
  template <class T>
  __device__ static T join(T a, T b) { return add(a, b); }
};
struct Product {
  template <class T>
  __device__ static T none() { return T(1); }
  template <class T>
  __device__ static T join(T a, T b) { return mul(a, b); }
};
struct Greatest {
  template <class T>
  __device__ static T none() { return lowest<T>(); }
  template <class T>
  __device__ static T join(T a, T b) { return max(a, b); }
};
struct Least {
  template <class T>
  __device__ static T none() { return highest<T>(); }
  template <class T>
  __device__ static T join(T a, T b) { return min(a, b); }
};

// A value and where it was found; `at` is -1 for nothing.
template <class T>
struct Found {
  T value;
  i64 at;
};
// The first greatest; a NaN is greater than all else.
struct First {
  template <class F>
  __device__ static F none() { return {{}, -1}; }
  template <class T>
  __device__ static Found<T> join(Found<T> a, Found<T> b) {
    if (a.at < 0) return b;
    if (b.at < 0) return a;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    const bool alike = a_nan || b_nan ? a_nan == b_nan : a.value == b.value;
    const bool second = alike ? b.at < a.at : b_nan || (!a_nan && b.value > a.value);
    return second ? b : a;
  }
};

// The value of the thread whose number in the warp differs in the bits of `mask`.
template <class T>
__device__ inline T exchange(T x, int mask) {
  if constexpr (sizeof(T) < 4)
    return static_cast<T>(__shfl_xor_sync(0xFFFFFFFFu, static_cast<i32>(x), mask));
  else
    return __shfl_xor_sync(0xFFFFFFFFu, x, mask);
}
template <class T>
__device__ inline Found<T> exchange(Found<T> x, int mask) {
  return {exchange(x.value, mask), exchange(x.at, mask)};
}

// Joins the parts of `width` neighbouring threads; every one of them may be read in `shared` afterwards by the first, which
// gets the whole. `width` is a power of two, and divides a block's threads. `unused_before` is the caller's word that no thread of
// the block has read or written `shared` since the kernel began; without it all threads meet before the first writes there.
template <class Fold, int width, bool unused_before = false, class T>
__device__ inline T join_neighbours(T x, T* shared) {
#pragma unroll
  for (int mask = (width < 32 ? width : 32) / 2; mask > 0; mask /= 2) x = Fold::join(x, exchange(x, mask));
  if constexpr (width > 32) {
    const int warp = static_cast<int>(threadIdx.x) / 32, first = static_cast<int>(threadIdx.x) / width * (width / 32);
    if constexpr (!unused_before) __syncthreads();
    if (threadIdx.x % 32 == 0) shared[warp] = x;
    __syncthreads();
    x = shared[first];
#pragma unroll
    for (int i = 1; i < width / 32; ++i) x = Fold::join(x, shared[first + i]);
  }
  return x;
}

// Joins the parts of threads t, t + step, t + 2·step …; thread t < step gets the whole. 256 threads, `step` a power of two.
template <class Fold, int step, class T>
__device__ inline T join_strided(T x, T* shared) {
  __syncthreads();
  shared[threadIdx.x] = x;
#pragma unroll
  for (int half = 128; half >= step; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) {
      x = Fold::join(x, shared[threadIdx.x + half]);
      shared[threadIdx.x] = x;
    }
  }
  return x;
}

// The same, and all of threads t, t + step … get the whole.
template <class Fold, int step, class T>
__device__ inline T share_strided(T x, T* shared) {
  join_strided<Fold, step>(x, shared);
  __syncthreads();
  return shared[threadIdx.x % step];
}

// x, of which the compiler is told nothing: what is addressed by it is loaded where the text says so, not held from before.
__device__ inline u32 hidden(u32 x) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(x));
#endif
  return x;
}

}  // namespace tn
