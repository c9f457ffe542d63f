// SPDX-License-Identifier: Apache-2.0
// reduce_ops.hpp: what one reduction does with its elements, for tiles of each class.
//
// Invariant: floats are summed and multiplied in f64, integers modulo 2^64; folding pieces and merging them in order gives
// what `pieces` stand for, and an empty fold gives the op's value of nothing.
#pragma once

#include "tile_ops.hpp"

namespace tenon::cpu {

// What has been folded so far; which member holds it is the op's affair.
struct Accumulator {
  union {
    double real;
    int64_t integer;
    uint64_t natural;
  };
  int64_t index;  // of an argmax's element; -1: none yet
};

struct ReduceOps {
  void (*start)(Accumulator* sums, uint32_t n);
  // One sum from n elements of one output, the first of which is number `at`.
  void (*fold_row)(Accumulator* sum, const void* tile, uint32_t n, uint64_t at);
  // Element `at` of n outputs into n sums.
  void (*fold_columns)(Accumulator* sums, const void* tile, uint32_t n, uint64_t at);
  // sums[i] followed by more[i].
  void (*merge)(Accumulator* sums, const Accumulator* more, uint32_t n);
  // A tile of results, of class_of(result dtype), from sums over `length` elements each.
  void (*finish)(const Accumulator* sums, uint32_t n, uint64_t length, void* tile);
};

// [any-thread; does not block; cannot fail]
ReduceOps reduce_ops(uint32_t op, uint32_t dtype) noexcept;

}  // namespace tenon::cpu
