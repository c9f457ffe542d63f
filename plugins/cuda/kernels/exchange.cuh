// SPDX-License-Identifier: Apache-2.0
// exchange.cuh: how a kernel finds what the members of an exchange have told each other: words in pinned memory, as
// comm/board.hpp lays them out.
//
// A word is read once for each block, past all caches, since the host or another device may have written it.
// Invariant: a kernel that finds another index than its own touches nothing: the exchange was called off.

namespace tn {

// A pointer from an address that was read: the compiler is told that it is a global one.
template <class T>
__device__ inline T* pointer(u64 at) {
  void* const plain = reinterpret_cast<void*>(at);
#ifdef __CUDA_ARCH__
  __builtin_assume(__isGlobal(plain));
#endif
  return static_cast<T*>(plain);
}

struct Exchange {
  u64 slot;
  u32 members;

  __device__ u64 word(u64 at) const { return pointer<const volatile u64>(slot)[at]; }
  // After the index come a "ready" and a "done" of each member, then what each has told.
  __device__ u64 told(u32 member, u32 what) const { return word(1 + 2 * members + u64(member) * (3 + members) + what); }
  __device__ bool stands(u64 index) const { return word(0) == index; }
  __device__ u64 out(u32 member) const { return told(member, 0); }
  __device__ u64 factor_at(u32 member) const { return told(member, 1); }
  __device__ f64 factor(u32 member) const { return f64_of(told(member, 2)); }
  // Where `member` holds what it has for `reader`.
  __device__ u64 block(u32 member, u32 reader) const { return told(member, 3 + reader); }
};

}  // namespace tn
