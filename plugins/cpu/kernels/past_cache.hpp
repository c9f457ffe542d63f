// SPDX-License-Identifier: Apache-2.0
// past_cache.hpp: writing results that are too large to be found in a cache when they are read.
//
// An ordinary store first reads the line that it overwrites; for a large result that is a third of its traffic.
// Invariant: after finish_past_cache() the thread's own writes are ordered as ordinary ones are.
#pragma once

#include "view.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace tenon::cpu {

// Outputs from here on go past the caches; below, whoever reads them next finds them there.
inline constexpr uint64_t past_cache_bytes = 16 << 20;
inline bool goes_past_cache(const View& view) noexcept {
  return view.contiguous() && view.count() * view.element_bytes() >= past_cache_bytes;
}

#if defined(__x86_64__)
inline void write_past_cache(std::byte* to, const std::byte* from, uint64_t bytes) noexcept {
  constexpr uint64_t line = 64;
  const uint64_t head = std::min(bytes, (line - reinterpret_cast<uintptr_t>(to) % line) % line);
  std::memcpy(to, from, head);
  uint64_t done = head;
  for (; done + line <= bytes; done += line) {
    auto* const out = reinterpret_cast<__m128i*>(to + done);
    const auto* const in = reinterpret_cast<const __m128i*>(from + done);
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1), c = _mm_loadu_si128(in + 2),
                  d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  std::memcpy(to + done, from + done, bytes - done);
}
inline void finish_past_cache() noexcept { _mm_sfence(); }
#else
inline void write_past_cache(std::byte* to, const std::byte* from, uint64_t bytes) noexcept {
  std::memcpy(to, from, bytes);
}
inline void finish_past_cache() noexcept {}
#endif

}  // namespace tenon::cpu
