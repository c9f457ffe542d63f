// SPDX-License-Identifier: Apache-2.0
// matmul_limit.cpp: the loop. It is compiled for the machine that it runs on, with products and sums joined.
#include "matmul_limit.hpp"

#include "limits.hpp"

// Of the processors that multiply pairs of bf16 in vectors, those without tiles of it are the ones whose limit that is.
#if defined(__AVX512BF16__) && !defined(__AMX_BF16__)
#define BENCH_PAIRS 1
#include <immintrin.h>
#else
#define BENCH_PAIRS 0
#endif

namespace bench {
namespace {

// As wide as a register; as many as hide how long one takes, and leave room for the factors where there are 16.
#if defined(__AVX512F__)
constexpr int bytes = 64;
#elif defined(__AVX__)
constexpr int bytes = 32;
#else
constexpr int bytes = 16;
#endif
typedef float Vector __attribute__((vector_size(bytes)));
constexpr int accumulators = 12, rounds = (1 << 20) * (64 / bytes);
static_assert(multiply_add_flops == 2.0 * threads * accumulators * (sizeof(Vector) / sizeof(float)) * rounds);

}  // namespace

float multiply_adds() {
  float out = 0;
#pragma omp parallel num_threads(threads) reduction(+ : out)
  {
    // No two alike, none at rest, and every lane is wanted: else a compiler keeps one of them.
    Vector sums[accumulators], factor = Vector{} + 0.999f, more = Vector{} + 0.001f;
    for (int i = 0; i < accumulators; ++i) sums[i] = Vector{} + static_cast<float>(i + 2);
    for (int round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
      for (int i = 0; i < accumulators; ++i) sums[i] = sums[i] * factor + more;
    }
    for (const Vector& sum : sums)
      for (size_t lane = 0; lane < sizeof(Vector) / sizeof(float); ++lane) out += sum[lane];
  }
  return out;
}

bool multiplies_pairs() noexcept { return BENCH_PAIRS != 0; }

float multiply_add_pairs() {
  float out = 0;
#if BENCH_PAIRS
#pragma omp parallel num_threads(threads) reduction(+ : out)
  {
    Vector sums[accumulators];
    const auto ones = (__m512bh)_mm512_set1_epi32(0x3f803f80);
    for (int i = 0; i < accumulators; ++i) sums[i] = Vector{} + static_cast<float>(i + 2);
    for (int round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
      for (int i = 0; i < accumulators; ++i) sums[i] = (Vector)_mm512_dpbf16_ps((__m512)sums[i], ones, ones);
    }
    for (const Vector& sum : sums)
      for (size_t lane = 0; lane < sizeof(Vector) / sizeof(float); ++lane) out += sum[lane];
  }
#endif
  return out;
}

}  // namespace bench
