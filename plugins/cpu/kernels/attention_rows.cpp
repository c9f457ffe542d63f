// SPDX-License-Identifier: Apache-2.0
// attention_rows.cpp: the loops, compiled for several instruction sets.
//
// Invariant: partial sums of a product live in registers; how many there are decides the block.
#include "attention_rows.hpp"

#include "attention_vector.hpp"
#include "wide.hpp"

#include <algorithm>
#include <limits>

namespace tenon::cpu {
namespace {

// How many sums there are: `rows` of `vectors` registers of `bytes`.
template <class T, uint32_t rows, uint32_t vectors, uint32_t bytes>
[[gnu::always_inline]] inline void multiply_block(const Product<T>& p, const T* a, const T* b, T* c) {
  constexpr uint32_t step = bytes / sizeof(T);
  Vector<T, bytes> sums[rows][vectors];
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t v = 0; v < vectors; ++v) {
      sums[r][v] = Vector<T, bytes>{};
      if (p.accumulate) load<T, bytes>(sums[r][v], c + r * p.c_row + v * step);
    }
  }
  const bool unit_row = p.a_row == 1;
  const auto run = [&](int64_t row_stride, int64_t depth_stride) __attribute__((always_inline)) {
    for (uint32_t k = 0; k < p.depth; ++k, a += depth_stride, b += p.b_depth) {
      Vector<T, bytes> line[vectors];
      for (uint32_t v = 0; v < vectors; ++v) load<T, bytes>(line[v], b + v * step);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < rows; ++r) {
        const T x = a[r * row_stride];
        for (uint32_t v = 0; v < vectors; ++v) sums[r][v] += x * line[v];
      }
    }
  };
  if (unit_row)
    run(1, p.a_depth);
  else
    run(p.a_row, 1);
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t v = 0; v < vectors; ++v) store<T, bytes>(c + r * p.c_row + v * step, sums[r][v]);
  }
}

// Rows of the next block when `left` remain. Short blocks leave multipliers idle, so 16 are 8 and 8 rather than 12 and 4, and 8
// are 4 and 4 rather than 6, 1 and 1.
template <uint32_t most>
constexpr uint32_t next_block(uint32_t left) noexcept {
  if (most >= 12 && left >= 12 && left != 16) return 12;
  if (most >= 8 && left >= 8) return 8;
  if (most == 6 && left >= 6 && left != 8) return 6;
  return left >= 4 ? 4 : 1;
}

template <class T, uint32_t most_rows, uint32_t vectors, uint32_t bytes>
[[gnu::always_inline]] inline void multiply_columns(const Product<T>& p, uint32_t column) {
  const T* const b = p.b + column;
  for (uint32_t row = 0; row < p.rows;) {
    const T* const a = p.a + row * p.a_row;
    T* const c = p.c + row * p.c_row + column;
    const uint32_t rows = next_block<most_rows>(p.rows - row);
    if (rows == 12)
      multiply_block<T, std::min(most_rows, 12u), vectors, bytes>(p, a, b, c);
    else if (rows == 8)
      multiply_block<T, std::min(most_rows, 8u), vectors, bytes>(p, a, b, c);
    else if (rows == 6)
      multiply_block<T, std::min(most_rows, 6u), vectors, bytes>(p, a, b, c);
    else if (rows == 4)
      multiply_block<T, 4, vectors, bytes>(p, a, b, c);
    else
      multiply_block<T, 1, vectors, bytes>(p, a, b, c);
    row += rows;
  }
}

template <class T, uint32_t most_rows, uint32_t vectors, uint32_t bytes>
struct Multiply {
  static void run(const Product<T>& p) {
    constexpr uint32_t step = bytes / sizeof(T);
    uint32_t column = 0;
    for (; column + vectors * step <= p.columns; column += vectors * step)
      multiply_columns<T, most_rows, vectors, bytes>(p, column);
    for (; column < p.columns; column += step) multiply_columns<T, most_rows, 1, bytes>(p, column);
  }
};

template <class T>
struct Turn {
  static void run(const Turning<T>& t) {
    for (uint32_t row = 0; row < t.rows; row += lanes<T>) {
      const uint32_t rows = std::min(lanes<T>, t.rows - row);
      for (uint32_t column = 0; column < t.columns; column += lanes<T>) {
        const uint32_t columns = std::min(lanes<T>, t.columns - column);
        Vector<T> factor = Vector<T>{} + t.factor, square[lanes<T>];
        if (t.factors != nullptr) load(factor, t.factors + column);
        for (uint32_t r = 0; r < lanes<T>; ++r) {
          square[r] = Vector<T>{};
          if (r < rows) load_some(square[r], t.from + (row + r) * t.from_row + column, columns);
          square[r] *= factor;
        }
        turn<T>(square);
        for (uint32_t c = 0; c < columns; ++c)
          store_some(t.to + (column + c) * t.to_row + row, square[c], rows);
      }
    }
  }
};

// Queries in two registers side by side.
template <class T, uint32_t bytes>
struct Columns {
  using V = Vector<T, bytes>;
  static constexpr uint32_t row = queries_of<T>, step = bytes / sizeof(T);

  static_assert(row % (2 * step) == 0);
};

template <class T, uint32_t bytes>
struct Soften : Columns<T, bytes> {
  using typename Columns<T, bytes>::V;
  using Columns<T, bytes>::row;
  using Columns<T, bytes>::step;

  [[gnu::always_inline]] static void raise(V& largest, const T* from) {
    V x;
    load<T, bytes>(x, from);
    largest = x > largest ? x : largest;
  }
  // Two keys at a time in maxima of their own: a chain of them would wait for each.
  [[gnu::always_inline]] static void find_largest(const T* scores, uint32_t keys, V (&largest)[2]) {
    V odd[2] = {largest[0], largest[1]};
    uint32_t key = 0;
    for (; key + 2 <= keys; key += 2) {
      for (uint32_t v = 0; v < 2; ++v) {
        raise(largest[v], scores + key * row + v * step);
        raise(odd[v], scores + (key + 1) * row + v * step);
      }
    }
    for (uint32_t v = 0; v < 2; ++v) {
      if (key < keys) raise(largest[v], scores + key * row + v * step);
      largest[v] = odd[v] > largest[v] ? odd[v] : largest[v];
    }
  }

  static void run(T* scores, uint32_t keys, Softmax<T>& softmax) {
    for (uint32_t column = 0; column < row; column += 2 * step)
      soften(scores + column, keys, softmax, column);
  }

  [[gnu::always_inline]] static void soften(T* scores, uint32_t keys, Softmax<T>& softmax, uint32_t column) {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    V largest[2], base[2], sum[2];
    for (uint32_t v = 0; v < 2; ++v) load<T, bytes>(largest[v], softmax.largest + column + v * step);
    find_largest(scores, keys, largest);
    for (uint32_t v = 0; v < 2; ++v) {
      const uint32_t at = column + v * step;
      // Where every key is masked so far, any finite number will do.
      base[v] = largest[v] == -infinity ? V{} : largest[v];
      V before, shrink;
      load<T, bytes>(before, softmax.largest + at);
      exp2_below<T, true, bytes>(shrink, before - base[v]);
      load<T, bytes>(sum[v], softmax.sum + at);
      sum[v] *= shrink;
      store<T, bytes>(softmax.shrink + at, shrink);
      store<T, bytes>(softmax.largest + at, largest[v]);
    }
    for (uint32_t key = 0; key < keys; ++key) {
      for (uint32_t v = 0; v < 2; ++v) {
        T* const at = scores + key * row + v * step;
        V x, share;
        load<T, bytes>(x, at);
        exp2_below<T, false, bytes>(share, x - base[v]);
        sum[v] += share;
        store<T, bytes>(at, share);
      }
    }
    for (uint32_t v = 0; v < 2; ++v) store<T, bytes>(softmax.sum + column + v * step, sum[v]);
  }
};

template <class T, uint32_t bytes>
struct Shrink : Columns<T, bytes> {
  using typename Columns<T, bytes>::V;
  using Columns<T, bytes>::row;
  using Columns<T, bytes>::step;

  static void run(T* sums, uint32_t rows, const Softmax<T>& softmax) {
    for (uint32_t column = 0; column < row; column += step) {
      V by, x;
      load<T, bytes>(by, softmax.shrink + column);
      for (uint32_t i = 0; i < rows; ++i) {
        load<T, bytes>(x, sums + i * row + column);
        store<T, bytes>(sums + i * row + column, x * by);
      }
    }
  }
};

template <class T, uint32_t bytes>
struct Slopes : Columns<T, bytes> {
  using typename Columns<T, bytes>::V;
  using Columns<T, bytes>::row;
  using Columns<T, bytes>::step;

  static void run(const Slope<T>& s) {
    for (uint32_t v = 0; v < row; v += step) {
      V norm, inner;
      load<T, bytes>(norm, s.norm + v);
      load<T, bytes>(inner, s.inner + v);
      for (uint32_t at = v; at < s.keys * row; at += row) {
        V score, slope, share;
        load<T, bytes>(score, s.scores + at);
        load<T, bytes>(slope, s.slopes + at);
        // A share is at most 1, but rounding may put its logarithm above 0.
        V log = score - norm;
        log = log > 0 ? V{} : log;
        exp2_below<T, true, bytes>(share, log);
        store<T, bytes>(s.scores + at, share);
        slope = share * (slope - inner) * s.scale;
        store<T, bytes>(s.slopes + at, slope);
      }
    }
  }
};

template <class T>
AttentionLoops<T> attention_loops_of(Isa of) noexcept {
  AttentionLoops<T> out{.multiply = Multiply<T, 4, 2, 16>::run,
                        .turn = widest<Turn<T>>(of),
                        .soften = widest<Soften<T, 64>::run, Soften<T, 32>::run, Soften<T, 16>::run>(of),
                        .shrink = widest<Shrink<T, 64>::run, Shrink<T, 32>::run, Shrink<T, 16>::run>(of),
                        .slope = widest<Slopes<T, 64>::run, Slopes<T, 32>::run, Slopes<T, 16>::run>(of)};
#if defined(__x86_64__)
  if (of >= Isa::avx512)
    out.multiply = Compilations<Multiply<T, 12, 2, 64>, void(const Product<T>&)>::avx512;
  else if (of >= Isa::avx2)
    out.multiply = Compilations<Multiply<T, 6, 2, 32>, void(const Product<T>&)>::avx2;
#endif
  return out;
}

}  // namespace

template <class T>
const AttentionLoops<T>& attention_loops(Isa of) noexcept {
  return widest_table<attention_loops_of<T>>(of);
}

template const AttentionLoops<float>& attention_loops<float>(Isa) noexcept;
template const AttentionLoops<double>& attention_loops<double>(Isa) noexcept;

}  // namespace tenon::cpu
