// SPDX-License-Identifier: Apache-2.0
// driver.hpp: the native side of this plugin: what it asks of the operating system, in one place.
//
// Topology, memory figures, pages, the cache folder, clocks, futexes and thread placement.
// Invariant: nothing outside driver.cpp (and comm/system.cpp, for what processes share) makes a system call of its own, and
// nothing here keeps state but `Fence` and locks.
#pragma once

#include <tenon/result.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::cpu::driver {

// One NUMA node that has processors this process may use.
struct Node {
  int number = 0;
  std::vector<int> processors;  // of the process's affinity only
  uint64_t memory_bytes = 0;
};

// The nodes, in order of number; never empty, because a machine that tells nothing counts as one node.
// [any-thread; may block; cannot fail]
std::vector<Node> nodes();
// "Intel(R) Xeon(R) …", or the architecture's name. [any-thread; may block; cannot fail]
std::string cpu_model();
// True when the processor multiplies bf16 with AVX-512 (`avx512_core` in oneDNN's words). [any-thread; cannot fail]
bool has_avx512() noexcept;
// True when the processor multiplies tiles of bf16 (AMX), rounds to bf16 (AVX512-BF16), and the system lends this process their registers, which the
// first question asks for. [any-thread; does not block; cannot fail]
bool has_bf16_tiles() noexcept;
// True when vectors multiply pairs of bf16 (AVX512-BF16) faster than f32, as AMD's do; Intel's take twice as long for them as
// for f32. [any-thread; cannot fail]
bool has_quick_bf16_pairs() noexcept;
// What the largest cache of a processor holds, or a guess where nobody says. [any-thread; may block; cannot fail]
uint64_t cache_bytes();
// Processors this process may run on, at least 1. [any-thread; does not block; cannot fail]
unsigned affinity_count() noexcept;
// Keeps the calling thread on `processors`; best effort. [any-thread; does not block; cannot fail]
void keep_on(const std::vector<int>& processors) noexcept;
// Lets whoever wakes the calling thread go on first where the two share a processor; best effort.
// [any-thread; does not block; cannot fail]
void let_wakers_go_on() noexcept;
// Names the calling thread for debuggers; cut to 15 bytes. [any-thread; does not block; cannot fail]
void name_thread(const char* name) noexcept;

// What the machine and the control group leave to this process.
struct MemoryFigures {
  uint64_t total = 0;      // physical, or the control group's limit when that is less
  uint64_t available = 0;  // could be used now without swapping
};
// [any-thread; may block; cannot fail]
MemoryFigures memory_figures();

// Anonymous pages at an address that `alignment` divides, with huge-page advice, preferably on `node`. nullptr when there
// are none. [any-thread; may block; may fail]
void* map_pages(size_t bytes, size_t alignment, int node) noexcept;
void unmap_pages(void* pages, size_t bytes) noexcept;
// Huge pages where the system grants them, preferably on `node`; best effort, before the first touch.
// [any-thread; does not block; cannot fail]
void advise_pages(void* pages, size_t bytes, int node) noexcept;

// Where this user's programs keep what they can find out again: $XDG_CACHE_HOME/tenon/cpu or ~/.cache/tenon/cpu; "" when
// neither is set, and in a process that runs with more rights than its user. [any-thread; does not block; cannot fail]
std::string cache_folder();
// No other process of this machine has this number now. [any-thread; does not block; cannot fail]
unsigned process_number() noexcept;

// Keeps other processes that lock the same folder waiting, for its life; nothing where the folder or its file system
// knows no locks. [any-thread; may block; cannot fail]
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder) noexcept;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int folder_;
};

// CLOCK_MONOTONIC in ns. [any-thread; does not block; cannot fail]
uint64_t now_ns() noexcept;
inline constexpr uint64_t never = UINT64_MAX;
// So many ns from now, for which TN_TIMEOUT_NEVER is never. [any-thread; does not block; cannot fail]
inline uint64_t deadline_after(uint64_t timeout_ns) noexcept {
  if (timeout_ns == never) return never;
  const uint64_t now = now_ns();
  return timeout_ns > never - now ? never : now + timeout_ns;
}

// Sleeps while `word` is `expected`, until woken or `deadline` (now_ns time, or never). May return early.
// [any-thread; blocks; cannot fail]
void sleep_on(std::atomic<uint32_t>& word, uint32_t expected, uint64_t deadline) noexcept;
void wake_all(std::atomic<uint32_t>& word) noexcept;

// Lets another thread of this processor run, if one is ready. [any-thread; does not block; cannot fail]
void yield() noexcept;
// One turn of a spin loop. [any-thread; does not block; cannot fail]
inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Asks for the line at `at`, to be written here soon: the write then waits for nobody who has read it. [any-thread; does not block;
// cannot fail]
inline void prefetch_to_write(const void* at) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" ::"m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

// The two halves of "I wrote A, then look at B" against "I wrote B, then look at A". The frequent side pays nothing when
// the kernel lends a membarrier to the rare side; otherwise both pay a full fence.
class Fence {
 public:
  // Asks the kernel once. [any-thread; does not block; cannot fail]
  static void prepare() noexcept;
  // The frequent side, between its store and its load. [any-thread; does not block; cannot fail]
  static void light() noexcept {
    if (asymmetric_.load(std::memory_order_relaxed)) [[likely]] {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }
  // The rare side. [any-thread; may block; cannot fail]
  static void heavy() noexcept;

 private:
  static inline std::atomic<bool> asymmetric_{false};
};

}  // namespace tenon::cpu::driver
