// SPDX-License-Identifier: Apache-2.0
// code.cpp: running code on any number of elements.
//
// Invariant: code reads and writes whole vectors, so what is left over is computed in vectors of our own.
#include "code.hpp"

#include <tenon/author/names.hpp>

#include <algorithm>
#include <cstring>

namespace tenon::cpu::jit {
namespace {

constexpr uint64_t widest_vector = 64;

uint64_t element_bytes(const Memory& memory) noexcept { return author::dtype_bits(memory.dtype) / 8; }

}  // namespace

void Code::run(std::byte* const* pointers, uint64_t n, bool past_cache) const noexcept {
  const uint64_t rest = n % lanes_, whole = n - rest;
  if (whole > 0) {
    const bool uncached = past_cache && uncached_ != nullptr && is_aligned(pointers);
    (uncached ? uncached_ : cached_)(pointers, whole);
  }
  if (rest > 0) run_rest(pointers, whole, rest);
}

bool Code::is_aligned(std::byte* const* pointers) const noexcept {
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (memory_[i].past_cache && reinterpret_cast<uintptr_t>(pointers[i]) % widest_vector != 0) return false;
  }
  return true;
}

void Code::run_rest(std::byte* const* pointers, uint64_t done, uint64_t rest) const noexcept {
  alignas(widest_vector) std::byte rows[most_memories][widest_vector];
  std::byte* own[most_memories];
  for (size_t i = 0; i < memory_.size(); ++i) {
    const uint64_t bytes = element_bytes(memory_[i]);
    own[i] = memory_[i].uniform ? pointers[i] : rows[i];
    if (memory_[i].uniform || memory_[i].written) continue;
    std::memset(rows[i], 0, widest_vector);
    std::memcpy(rows[i], pointers[i] + done * bytes, rest * bytes);
  }
  cached_(own, lanes_);
  for (size_t i = 0; i < memory_.size(); ++i) {
    const uint64_t bytes = element_bytes(memory_[i]);
    if (memory_[i].written) std::memcpy(pointers[i] + done * bytes, rows[i], rest * bytes);
  }
}

}  // namespace tenon::cpu::jit
