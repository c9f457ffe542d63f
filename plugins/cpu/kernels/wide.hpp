// SPDX-License-Identifier: Apache-2.0
// wide.hpp: one loop compiled for several instruction sets; the processor that runs it decides which.
//
//   struct Halve { static void run(float* x, uint64_t n) { … } };
//   const auto halve = widest<Halve>();
//
// Invariant: all compilations of a loop compute the same, bit for bit, unless its file allows contraction or the loop asks
// for fused products (widest_of).
#pragma once

#include "isa.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

// For functions that a loop calls: inlined, they are compiled for the loop's instruction set.
#define TENON_CPU_LOOP [[gnu::always_inline]] inline

namespace tenon::cpu {

template <class Loop, class Signature>
struct Compilations;

template <class Loop, class Result, class... Arguments>
struct Compilations<Loop, Result(Arguments...)> {
  using Function = Result (*)(Arguments...);

#if defined(__x86_64__)
  [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"), gnu::flatten]] static Result avx512(
      Arguments... arguments) {
    return Loop::run(arguments...);
  }
  [[gnu::target("avx2,fma"), gnu::flatten]] static Result avx2(Arguments... arguments) {
    return Loop::run(arguments...);
  }
#endif
  static Function widest([[maybe_unused]] Isa of) noexcept {
#if defined(__x86_64__)
    if (of >= Isa::avx512) return avx512;
    if (of >= Isa::avx2) return avx2;
#endif
    return Loop::run;
  }
};

template <class Loop, class Signature>
constexpr Compilations<Loop, Signature> compilations_of(Signature*) noexcept {
  return {};
}

// The compilation of Loop::run for the widest instruction set that may be used. [any-thread; does not block; cannot fail]
template <class Loop>
auto widest(Isa of = isa()) noexcept {
  return decltype(compilations_of<Loop>(&Loop::run))::widest(of);
}

// The same of a loop that is a function template's instance. [any-thread; does not block; cannot fail]
template <auto function>
struct LoopOf;
template <class Result, class... Arguments, Result (*function)(Arguments...)>
struct LoopOf<function> {
  static Result run(Arguments... arguments) { return function(arguments...); }
};
template <auto function>
auto widest(Isa of = isa()) noexcept {
  return widest<LoopOf<function>>(of);
}

// The same of a loop that is written in values as wide as a register, so that the compiler splits none: for registers of 64, 32 and 16
// bytes. [any-thread; does not block; cannot fail]
template <auto in_64, auto in_32, auto in_16>
auto widest([[maybe_unused]] Isa of = isa()) noexcept {
#if defined(__x86_64__)
  if (of >= Isa::avx512) return &decltype(compilations_of<LoopOf<in_64>>(&LoopOf<in_64>::run))::avx512;
  if (of >= Isa::avx2) return &decltype(compilations_of<LoopOf<in_32>>(&LoopOf<in_32>::run))::avx2;
#endif
  return &LoopOf<in_16>::run;
}

// The same of a loop that is told whether products may be fused with sums: Loop<true> where the processor rounds both at
// once, Loop<false> where it cannot. [any-thread; does not block; cannot fail]
template <template <bool fused> class Loop>
auto widest_of([[maybe_unused]] Isa of = isa()) noexcept {
  using Fused = decltype(compilations_of<Loop<true>>(&Loop<true>::run));
#if defined(__x86_64__)
  if (of >= Isa::avx512) return &Fused::avx512;
  if (of >= Isa::avx2) return &Fused::avx2;
#endif
  return static_cast<typename Fused::Function>(Loop<baseline_fuses>::run);
}

// make(isa), once for each instruction set: that of the widest that may be used. A kernel keeps what it was given as it was compiled.
// [any-thread; does not block; cannot fail]
template <auto make>
const auto& widest_table(Isa of = isa()) noexcept {
  static const std::array tables = {make(Isa::baseline), make(Isa::avx2), make(Isa::avx512)};
  return tables[static_cast<size_t>(of)];
}

}  // namespace tenon::cpu
