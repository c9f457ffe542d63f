// SPDX-License-Identifier: Apache-2.0
// limits.hpp: loops written by hand: what this machine's memory can do, and peers that no library offers.
//
// Invariant: each is one parallel region of two threads (finite_and_unscale: two), and vectorised for this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace bench {

inline constexpr int threads = 2;  // of ours, of every peer and of every limit

// out = the sum of the operands, stored past the caches.
void sum_past_caches(std::span<const float* const> operands, float* out, size_t count);
// The traffic of a cast to bf16, stored past the caches: `out` gets half the bytes of `in`, of no meaning.
void halve_past_caches(const float* in, uint16_t* out, size_t count);
// Reads every value of one to three operands; their sum is of no meaning.
float read_only(std::span<const float* const> operands, size_t count);
// Reads and writes every value in place.
void sweep_in_place(float* values, size_t count);

struct Values {
  float* data;
  size_t count;
};
// Whether all are finite in one pass over all tensors, then all times `factor` in a second.
bool finite_and_unscale(std::span<const Values> tensors, float factor);

}  // namespace bench
