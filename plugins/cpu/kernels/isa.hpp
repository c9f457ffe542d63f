// SPDX-License-Identifier: Apache-2.0
// isa.hpp: the widest instruction set that this plugin's own loops and code may use.
//
// Invariant: never wider than the processor; the same for every loop that is chosen after the cap was set.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace tenon::cpu {

// avx2 has FMA; avx512 is F, BW, DQ and VL. `baseline` is what the architecture guarantees: SSE2 on x86-64.
enum class Isa : uint8_t { baseline, avx2, avx512 };

// Whether the baseline of this architecture has a fused multiply-add.
#if defined(__aarch64__) || defined(__FMA__)
inline constexpr bool baseline_fuses = true;
#else
inline constexpr bool baseline_fuses = false;
#endif

inline Isa processor_isa() noexcept {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx2 ? (avx512 ? Isa::avx512 : Isa::avx2) : Isa::baseline;
#else
  return Isa::baseline;
#endif
}

inline std::atomic<Isa> isa_cap{Isa::avx512};

// What loops chosen now use. [any-thread; does not block; cannot fail]
inline Isa isa() noexcept {
  static const Isa own = processor_isa();
  const Isa cap = isa_cap.load(std::memory_order_relaxed);
  return cap < own ? cap : own;
}

#if defined(__x86_64__)
inline bool runs_avx512() noexcept { return isa() >= Isa::avx512; }
inline bool runs_avx2() noexcept { return isa() >= Isa::avx2; }
#endif

constexpr std::string_view isa_name(Isa isa) noexcept {
  switch (isa) {
    case Isa::avx512:
      return "avx512";
    case Isa::avx2:
      return "avx2";
    case Isa::baseline:
      break;
  }
#if defined(__x86_64__)
  return "sse2";
#else
  return "baseline";
#endif
}

}  // namespace tenon::cpu
