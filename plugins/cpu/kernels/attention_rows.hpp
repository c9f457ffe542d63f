// SPDX-License-Identifier: Apache-2.0
// attention_rows.hpp: the inner loops of attention: products of small matrices, turning, and softmax down the columns.
//
// Scores lie with one key a row and one query a lane, so a query's softmax needs no sum across lanes.
// Invariant: a row of queries is `queries_of<T>` long, whether or not there are so many.
#pragma once

#include "isa.hpp"

#include <cstdint>

namespace tenon::cpu {

// Elements of a vector of 64 bytes.
template <class T>
inline constexpr uint32_t lanes = 64 / sizeof(T);
// Queries that are computed together: two vectors.
template <class T>
inline constexpr uint32_t queries_of = 2 * lanes<T>;

// c[r][j] = Σₖ a[r·a_row + k·a_depth] · b[k·b_depth + j], added to c where `accumulate`. One of a's strides is 1; columns
// are a multiple of 64 bytes, and may overlap nothing.
template <class T>
struct Product {
  const T* a;
  int64_t a_row, a_depth;
  const T* b;
  int64_t b_depth;
  T* c;
  int64_t c_row;
  uint32_t rows, columns, depth;
  bool accumulate;
};

// to[c][r] = from[r][c] · factor, or · factors[c] where those are given (as many as whole vectors hold columns).
template <class T>
struct Turning {
  const T* from;
  int64_t from_row;
  T* to;
  int64_t to_row;
  uint32_t rows, columns;
  T factor;
  const T* factors;
};

// A softmax in progress, lane by lane, in powers of two.
template <class T>
struct alignas(64) Softmax {
  T largest[queries_of<T>], sum[queries_of<T>];
  T shrink[queries_of<T>];  // by what the last step made all before it smaller
};

// One step of the backward pass over a block of scores.
template <class T>
struct Slope {
  T* scores;       // in: scores; out: shares
  T* slopes;       // in: Σ dy·v; out: the scores' gradient
  const T* norm;   // log₂ Σ 2^score, a lane each
  const T* inner;  // Σ dy·y, likewise
  T scale;
  uint32_t keys;
};

template <class T>
struct AttentionLoops {
  void (*multiply)(const Product<T>& product);
  void (*turn)(const Turning<T>& turning);
  // Scores of `keys` more keys become shares not yet divided by their sum.
  void (*soften)(T* scores, uint32_t keys, Softmax<T>& softmax);
  // sums[r][q] ·= softmax.shrink[q] of `rows` rows.
  void (*shrink)(T* sums, uint32_t rows, const Softmax<T>& softmax);
  void (*slope)(const Slope<T>& slope);
};

// T is float or double. [any-thread; does not block; cannot fail]
template <class T>
const AttentionLoops<T>& attention_loops(Isa of) noexcept;

}  // namespace tenon::cpu
