// SPDX-License-Identifier: Apache-2.0
// arithmetic.hpp: the sum (or product, minimum, …) of what all ranks bring.
//
// Invariant: an element's value depends on what the ranks bring and their order alone: contributions are joined in order of
// rank, whatever the size, the cut or the way the bytes came. f16 and bf16 are joined in f32 and rounded once.
#pragma once

#include <tenon/comm.h>
#include <tenon/fragment.h>

#include <cstddef>
#include <cstdint>

namespace tenon::cpu::comm {

// One run of elements. `outs` may be among `sources`.
struct Row {
  const std::byte* const* sources;  // of each rank
  const uint64_t* factors;          // of each rank: bits of an int64_t, or of a double; nullptr: none
  uint32_t ranks;
  bool mean;
  std::byte* const* outs;  // the result goes to all of them
  uint32_t out_count;
  uint64_t count;  // elements
};
using ReduceRow = void (*)(const Row* row);

// How `dtype` is reduced; nullptr when it is not. bool: a sum or maximum is "any", a product or minimum "all", and there
// is neither mean nor factor. Integers wrap; their mean is cut towards zero. A NaN is the minimum and the maximum.
// [any-thread; does not block; cannot fail]
ReduceRow reduce_row(uint32_t dtype, uint32_t reduce) noexcept;

// Bytes of an element that can be moved; 0 for others. [any-thread; does not block; cannot fail]
uint64_t width_of(uint32_t dtype) noexcept;
// Whether a factor of this type is a whole number.
bool is_whole(uint32_t dtype) noexcept;
// The factor that lies at `at`, as Row wants it. [any-thread; does not block; cannot fail]
uint64_t factor_at(const std::byte* at, uint32_t dtype) noexcept;
uint64_t factor_of(double scalar, uint32_t dtype) noexcept;

}  // namespace tenon::cpu::comm
