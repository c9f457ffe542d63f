// SPDX-License-Identifier: Apache-2.0
// half_rows.cpp: the loops.
//
// Invariant: a loop reads and writes n elements, and its rows do not overlap.
#include "half_rows.hpp"

#include "half.hpp"
#include "wide.hpp"

#include <tenon/fragment.h>

#include <type_traits>

namespace tenon::cpu {
namespace {

template <class Half>
struct Widen {
  static void run(const void* from, float* to, uint64_t n) {
    const auto* x = static_cast<const Half*>(from);
#pragma omp simd
    for (uint64_t i = 0; i < n; ++i) to[i] = widen(x[i]);
  }
};

template <class Half>
struct Narrow {
  static void run(const float* from, void* to, uint64_t n) {
    auto* out = static_cast<Half*>(to);
#pragma omp simd
    for (uint64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<Half, BF16>)
        out[i] = to_bf16(from[i]);
      else
        out[i] = to_f16(from[i]);
    }
  }
};

struct PackBf16 {
  static void run(const float* from, void* to, uint64_t n) {
    auto* out = static_cast<uint16_t*>(to);
#pragma omp simd
    for (uint64_t i = 0; i < n; ++i) out[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(from[i]) >> 16);
  }
};

}  // namespace

WidenRow widen_row(uint32_t dtype) noexcept {
  return dtype == TN_DTYPE_f16    ? widest<Widen<F16>>()
         : dtype == TN_DTYPE_bf16 ? widest<Widen<BF16>>()
                                  : nullptr;
}

NarrowRow narrow_row(uint32_t dtype) noexcept {
  return dtype == TN_DTYPE_f16    ? widest<Narrow<F16>>()
         : dtype == TN_DTYPE_bf16 ? widest<Narrow<BF16>>()
                                  : nullptr;
}

NarrowRow pack_row(uint32_t dtype) noexcept {
  return dtype == TN_DTYPE_bf16 ? widest<PackBf16>() : narrow_row(dtype);
}

}  // namespace tenon::cpu
