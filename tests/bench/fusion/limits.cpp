// SPDX-License-Identifier: Apache-2.0
// limits.cpp: the loops. They are compiled for the machine that they run on.
#include "limits.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace bench {
namespace {

// As many floats as one store past the caches takes.
#if defined(__AVX512F__)
using Vector = __m512;
Vector load(const float* from) { return _mm512_loadu_ps(from); }
Vector plus(Vector a, Vector b) { return _mm512_add_ps(a, b); }
void store(float* to, Vector v) { _mm512_stream_ps(to, v); }
void settle() { _mm_sfence(); }
#elif defined(__SSE2__)
using Vector = __m128;
Vector load(const float* from) { return _mm_loadu_ps(from); }
Vector plus(Vector a, Vector b) { return _mm_add_ps(a, b); }
void store(float* to, Vector v) { _mm_stream_ps(to, v); }
void settle() { _mm_sfence(); }
#else  // a machine whose compiler offers no such store: the ordinary one is its limit
using Vector = float;
Vector load(const float* from) { return *from; }
Vector plus(Vector a, Vector b) { return a + b; }
void store(float* to, Vector v) { *to = v; }
void settle() {}
#endif
constexpr size_t width = sizeof(Vector) / sizeof(float);
constexpr size_t piece = 64 * 1024;

std::vector<Values> chunks_of(std::span<const Values> tensors) {
  std::vector<Values> out;
  for (const Values& tensor : tensors) {
    for (size_t at = 0; at < tensor.count; at += piece)
      out.push_back({tensor.data + at, std::min(piece, tensor.count - at)});
  }
  return out;
}

template <size_t operands>
void sum(const float* const* in, float* out, size_t count) {
#pragma omp parallel num_threads(threads)
  {
#pragma omp for schedule(static)
    for (size_t i = 0; i < count / width; ++i) {
      Vector total = load(in[0] + i * width);
      for (size_t k = 1; k < operands; ++k) total = plus(total, load(in[k] + i * width));
      store(out + i * width, total);
    }
    settle();
  }
}

template <size_t operands>
float read_all(const float* const* in, size_t count) {
  float total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
  {
    Vector sums[4] = {load(in[0]), load(in[0]), load(in[0]), load(in[0])};
#pragma omp for schedule(static)
    for (size_t i = 0; i < count / (4 * width); ++i) {
      for (size_t part = 0; part < 4; ++part) {
        for (size_t k = 0; k < operands; ++k)
          sums[part] = plus(sums[part], load(in[k] + (4 * i + part) * width));
      }
    }
    for (const Vector& part : sums) {
      float lanes[width];  // every lane is wanted, or a compiler leaves the others out
      std::memcpy(lanes, &part, sizeof lanes);
      for (const float lane : lanes) total += lane;
    }
  }
  return total;
}

}  // namespace

float read_only(std::span<const float* const> operands, size_t count) {
  switch (operands.size()) {
    case 1:
      return read_all<1>(operands.data(), count);
    case 2:
      return read_all<2>(operands.data(), count);
    case 3:
      return read_all<3>(operands.data(), count);
    default:
      throw std::invalid_argument("read_only: of " + std::to_string(operands.size()) +
                                  " operands, and 1 to 3 are known");
  }
}

void sum_past_caches(std::span<const float* const> operands, float* out, size_t count) {
  switch (operands.size()) {
    case 1:
      return sum<1>(operands.data(), out, count);
    case 2:
      return sum<2>(operands.data(), out, count);
    case 3:
      return sum<3>(operands.data(), out, count);
    case 4:
      return sum<4>(operands.data(), out, count);
    case 5:
      return sum<5>(operands.data(), out, count);
    default:
      return sum<8>(operands.data(), out, count);
  }
}

void halve_past_caches(const float* in, uint16_t* out, size_t count) {
  float* const words = reinterpret_cast<float*>(out);
#pragma omp parallel num_threads(threads)
  {
#pragma omp for schedule(static)
    for (size_t i = 0; i < count / (2 * width); ++i)
      store(words + i * width, plus(load(in + 2 * i * width), load(in + (2 * i + 1) * width)));
    settle();
  }
}

void sweep_in_place(float* values, size_t count) {
#pragma omp parallel for simd num_threads(threads) schedule(static)
  for (size_t i = 0; i < count; ++i) values[i] *= 0.999f;
}

bool finite_and_unscale(std::span<const Values> tensors, float factor) {
  const std::vector<Values> chunks = chunks_of(tensors);
  uint32_t found = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(| : found)
  for (size_t c = 0; c < chunks.size(); ++c) {
    uint32_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (size_t i = 0; i < chunks[c].count; ++i)
      bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(chunks[c].data[i]) & 0x7f800000u) == 0x7f800000u);
    found |= bad;
  }
#pragma omp parallel for num_threads(threads) schedule(static)
  for (size_t c = 0; c < chunks.size(); ++c) {
#pragma omp simd
    for (size_t i = 0; i < chunks[c].count; ++i) chunks[c].data[i] *= factor;
  }
  return found == 0;
}

}  // namespace bench
