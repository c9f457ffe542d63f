// SPDX-License-Identifier: Apache-2.0
// cuda_on_host.hpp: CUDA C++ device code as C++ for the host: its words, its built-in variables, and TN_ENTRY.
//
// Included before a device source, it lets the very same text be compiled by the host's compiler. A kernel's threads are
// run one after the other, each until it reaches a barrier or a warp's exchange; fibers.cpp does that, through `services`.
// It includes no header, since a source is compiled anew by every test and the standard's headers take most of the time.
// Compile it with -ffp-contract=off, and with -fno-gnu-unique where a module is to be unloaded.
// Limits: no dynamic shared memory (extern __shared__), no textures, no inline PTX: __CUDA_ARCH__ is not defined.
// Invariant: what is shared with the driver (namespace fakecuda) is laid out as in launch.hpp.
#pragma once

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __constant__ static
// One grid of a module runs at a time, block after block (fibers.cpp), so these are plain variables: thread-local ones of a
// library that comes late and goes early are what leak checkers trip over.
#define __shared__ static

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

namespace fakecuda {

struct Thread {
  dim3 thread_index{0, 0, 0}, block_index{0, 0, 0}, block_size{}, grid_size{};
};
struct Services {
  void (*barrier)();
  void (*meet)(const char* what, unsigned mask, unsigned long in, unsigned long* out);
  void (*trap)(const char* why);
};
struct Entry {
  unsigned version, arch;
  unsigned long parameter_bytes, max_threads;
  void (*run)(const void* parameters);
  const Thread** (*current)();
  const Services** services;
};

#ifndef FAKECUDA_ARCH
#define FAKECUDA_ARCH 0
#endif
inline constexpr unsigned version = 1;
static const Thread* current = nullptr;
static const Services* services = nullptr;
static inline const Thread** current_place() { return &current; }

}  // namespace fakecuda

#define threadIdx (::fakecuda::current->thread_index)
#define blockIdx (::fakecuda::current->block_index)
#define blockDim (::fakecuda::current->block_size)
#define gridDim (::fakecuda::current->grid_size)
static constexpr int warpSize = 32;

// A kernel that takes one structure by value, in blocks of at most 256 threads. Parameters have as much room as from CUDA 12.1
// and sm_70 on.
#define TN_ENTRY(name, Params)                                                                             \
  static_assert(sizeof(Params) <= 32764, "formal parameter space overflowed: a kernel takes 32764 bytes"); \
  static void name(const Params p);                                                                        \
  static void fakecuda_run_##name(const void* p) { name(*static_cast<const Params*>(p)); }                 \
  extern "C" __attribute__((visibility("default"), used)) const ::fakecuda::Entry fakecuda_entry_##name;   \
  const ::fakecuda::Entry fakecuda_entry_##name = {                                                        \
      ::fakecuda::version,        FAKECUDA_ARCH,        sizeof(Params), 256, &fakecuda_run_##name,         \
      &::fakecuda::current_place, &::fakecuda::services};                                                  \
  static void name(const Params p)
#define TN_CROWDED_ENTRY(name, Params) TN_ENTRY(name, Params)
#define TN_LIGHT_ENTRY(name, Params) TN_ENTRY(name, Params)

#ifndef FAKECUDA_BUILT_IN
extern "C" __attribute__((visibility("default"), used)) const unsigned fakecuda_module[2];
const unsigned fakecuda_module[2] = {::fakecuda::version, FAKECUDA_ARCH};
#endif

#include "cuda_math_on_host.hpp"

// Barriers and fences.
static inline void __syncthreads() { ::fakecuda::services->barrier(); }
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
[[noreturn]] static inline void __trap() {
  ::fakecuda::services->trap("__trap()");
  __builtin_unreachable();
}

namespace fakecuda {

static inline unsigned lane() {
  const Thread& t = *current;
  return ((t.thread_index.z * t.block_size.y + t.thread_index.y) * t.block_size.x + t.thread_index.x) % 32;
}

// Every lane's value, `from` of which is this one's.
template <class T>
static inline T exchange(const char* what, unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a warp exchanges 4 or 8 bytes");
  unsigned long in = 0, out[32];
  __builtin_memcpy(&in, &value, sizeof value);
  services->meet(what, mask, in, out);
  if ((mask >> from & 1) == 0) services->trap("a lane was read that takes no part in the exchange");
  __builtin_memcpy(&value, &out[from], sizeof value);
  return value;
}

// Which lanes of the mask say yes.
static inline unsigned vote(const char* what, unsigned mask, bool yes) {
  unsigned long out[32];
  services->meet(what, mask, yes, out);
  unsigned ballot = 0;
  for (unsigned i = 0; i < 32; ++i)
    if (mask >> i & 1) ballot |= static_cast<unsigned>(out[i] & 1) << i;
  return ballot;
}

}  // namespace fakecuda

static inline void __syncwarp(unsigned mask = ~0u) { ::fakecuda::vote("__syncwarp", mask, false); }
template <class T>
static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const unsigned me = ::fakecuda::lane(), w = static_cast<unsigned>(width);
  return ::fakecuda::exchange("__shfl_sync", mask, value, me / w * w + static_cast<unsigned>(from) % w);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32) {
  const unsigned me = ::fakecuda::lane(), w = static_cast<unsigned>(width),
                 other = me ^ static_cast<unsigned>(with);
  return ::fakecuda::exchange("__shfl_xor_sync", mask, value, other / w <= me / w ? other : me);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const unsigned me = ::fakecuda::lane(), w = static_cast<unsigned>(width);
  return ::fakecuda::exchange("__shfl_down_sync", mask, value, me % w + by < w ? me + by : me);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const unsigned me = ::fakecuda::lane(), w = static_cast<unsigned>(width);
  return ::fakecuda::exchange("__shfl_up_sync", mask, value, me % w >= by ? me - by : me);
}
static inline unsigned __ballot_sync(unsigned mask, int yes) {
  return ::fakecuda::vote("__ballot_sync", mask, yes);
}
static inline int __any_sync(unsigned mask, int yes) {
  return ::fakecuda::vote("__any_sync", mask, yes) != 0;
}
static inline int __all_sync(unsigned mask, int yes) {
  return ::fakecuda::vote("__all_sync", mask, yes) == mask;
}

// Atomics.
namespace fakecuda {
template <class T, class Change>
static inline T change(T* at, Change&& to) {
  T seen, next;
  __atomic_load(at, &seen, __ATOMIC_SEQ_CST);
  do next = to(seen);
  while (!__atomic_compare_exchange(at, &seen, &next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return seen;
}
}  // namespace fakecuda

template <class T>
static inline T atomicAdd(T* at, T by) {
  return ::fakecuda::change(at, [=](T x) { return static_cast<T>(x + by); });
}
template <class T>
static inline T atomicSub(T* at, T by) {
  return ::fakecuda::change(at, [=](T x) { return static_cast<T>(x - by); });
}
template <class T>
static inline T atomicMax(T* at, T with) {
  return ::fakecuda::change(at, [=](T x) { return x < with ? with : x; });
}
template <class T>
static inline T atomicMin(T* at, T with) {
  return ::fakecuda::change(at, [=](T x) { return with < x ? with : x; });
}
template <class T>
static inline T atomicOr(T* at, T with) {
  return ::fakecuda::change(at, [=](T x) { return static_cast<T>(x | with); });
}
template <class T>
static inline T atomicAnd(T* at, T with) {
  return ::fakecuda::change(at, [=](T x) { return static_cast<T>(x & with); });
}
template <class T>
static inline T atomicExch(T* at, T value) {
  return ::fakecuda::change(at, [=](T) { return value; });
}
template <class T>
static inline T atomicCAS(T* at, T expected, T value) {
  return ::fakecuda::change(at, [=](T x) { return x == expected ? value : x; });
}
