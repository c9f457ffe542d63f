// SPDX-License-Identifier: Apache-2.0
// isa.hpp: one loop, compiled for several instruction sets, chosen when the program runs.
//
// A loop is an inline function that is TENON_CPU_LOOP; best_version<loop>() is its fastest version for this processor.
// Invariant: versions differ in speed alone: nothing is contracted or reordered, so all give the same bits.
#pragma once

#include <cstdint>

// What a loop and every function it calls must be: inlined, a callee takes its caller's instruction set.
#define TENON_CPU_LOOP [[gnu::always_inline]] inline

// Before a loop whose iterations read nothing that another one writes; one may read what it writes itself (in place).
#if defined(__clang__)
#define TENON_CPU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TENON_CPU_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace tenon::cpu {

enum class Isa : uint8_t { baseline, avx2, avx512 };

// The best this processor has. [any-thread; does not block; cannot fail]
inline Isa isa() noexcept {
#if defined(__x86_64__)
  static const Isa best = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                                  __builtin_cpu_supports("avx512dq")
                              ? Isa::avx512
                          : __builtin_cpu_supports("avx2") ? Isa::avx2
                                                           : Isa::baseline;
  return best;
#else
  return Isa::baseline;
#endif
}

template <auto loop>
struct Versions;

template <class R, class... A, R (*loop)(A...)>
struct Versions<loop> {
  static R baseline(A... a) { return loop(a...); }
#if defined(__x86_64__)
  [[gnu::target("avx2")]] static R avx2(A... a) { return loop(a...); }
  [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] static R avx512(A... a) { return loop(a...); }
#endif
  static auto best() noexcept -> R (*)(A...) {
#if defined(__x86_64__)
    if (isa() == Isa::avx512) return avx512;
    if (isa() == Isa::avx2) return avx2;
#endif
    return baseline;
  }
};

template <auto loop>
auto best_version() noexcept {
  return Versions<loop>::best();
}

}  // namespace tenon::cpu
