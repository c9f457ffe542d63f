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

template <class T>
[[gnu::always_inline]] inline void raise(Vector<T>& largest, const T* from) {
  Vector<T> x;
  load(x, from);
  largest = x > largest ? x : largest;
}

template <class T>
struct Soften {
  static constexpr uint32_t row = queries_of<T>;

  // Two keys at a time in maxima of their own: a chain of them would wait for each.
  static void find_largest(const T* scores, uint32_t keys, Vector<T> (&largest)[2]) {
    Vector<T> odd[2] = {largest[0], largest[1]};
    uint32_t key = 0;
    for (; key + 2 <= keys; key += 2) {
      for (uint32_t v = 0; v < 2; ++v) {
        raise<T>(largest[v], scores + key * row + v * lanes<T>);
        raise<T>(odd[v], scores + (key + 1) * row + v * lanes<T>);
      }
    }
    for (uint32_t v = 0; v < 2; ++v) {
      if (key < keys) raise<T>(largest[v], scores + key * row + v * lanes<T>);
      largest[v] = odd[v] > largest[v] ? odd[v] : largest[v];
    }
  }

  static void run(T* scores, uint32_t keys, Softmax<T>& softmax) {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    Vector<T> largest[2], base[2], sum[2];
    for (uint32_t v = 0; v < 2; ++v) load(largest[v], softmax.largest + v * lanes<T>);
    find_largest(scores, keys, largest);
    for (uint32_t v = 0; v < 2; ++v) {
      // Where every key is masked so far, any finite number will do.
      base[v] = largest[v] == -infinity ? Vector<T>{} : largest[v];
      Vector<T> before, shrink;
      load(before, softmax.largest + v * lanes<T>);
      exp2_below<T, true>(shrink, before - base[v]);
      load(sum[v], softmax.sum + v * lanes<T>);
      sum[v] *= shrink;
      store(softmax.shrink + v * lanes<T>, shrink);
      store(softmax.largest + v * lanes<T>, largest[v]);
    }
    for (uint32_t key = 0; key < keys; ++key) {
      for (uint32_t v = 0; v < 2; ++v) {
        T* const at = scores + key * row + v * lanes<T>;
        Vector<T> x, share;
        load(x, at);
        exp2_below<T, false>(share, x - base[v]);
        sum[v] += share;
        store(at, share);
      }
    }
    for (uint32_t v = 0; v < 2; ++v) store(softmax.sum + v * lanes<T>, sum[v]);
  }
};

template <class T>
struct Shrink {
  static void run(T* sums, uint32_t rows, const Softmax<T>& softmax) {
    Vector<T> by[2], x;
    for (uint32_t v = 0; v < 2; ++v) load(by[v], softmax.shrink + v * lanes<T>);
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t v = 0; v < 2; ++v, sums += lanes<T>) {
        load(x, sums);
        store(sums, x * by[v]);
      }
    }
  }
};

template <class T>
struct Slopes {
  static void run(const Slope<T>& s) {
    for (uint32_t v = 0; v < queries_of<T>; v += lanes<T>) {
      Vector<T> norm, inner;
      load(norm, s.norm + v);
      load(inner, s.inner + v);
      for (uint32_t at = v; at < s.keys * queries_of<T>; at += queries_of<T>) {
        Vector<T> score, slope, share;
        load(score, s.scores + at);
        load(slope, s.slopes + at);
        // A share is at most 1, but rounding may put its logarithm above 0.
        Vector<T> log = score - norm;
        log = log > 0 ? Vector<T>{} : log;
        exp2_below<T, true>(share, log);
        store(s.scores + at, share);
        slope = share * (slope - inner) * s.scale;
        store(s.slopes + at, slope);
      }
    }
  }
};

template <class T>
AttentionLoops<T> chosen() noexcept {
  AttentionLoops<T> out{.multiply = Multiply<T, 4, 2, 16>::run,
                        .turn = widest<Turn<T>>(),
                        .soften = widest<Soften<T>>(),
                        .shrink = widest<Shrink<T>>(),
                        .slope = widest<Slopes<T>>()};
#if defined(__x86_64__)
  if (runs_avx512())
    out.multiply = Compilations<Multiply<T, 12, 2, 64>, void(const Product<T>&)>::avx512;
  else if (runs_avx2())
    out.multiply = Compilations<Multiply<T, 6, 2, 32>, void(const Product<T>&)>::avx2;
#endif
  return out;
}

}  // namespace

template <class T>
const AttentionLoops<T>& attention_loops() noexcept {
  static const AttentionLoops<T> loops = chosen<T>();
  return loops;
}

template const AttentionLoops<float>& attention_loops<float>() noexcept;
template const AttentionLoops<double>& attention_loops<double>() noexcept;

}  // namespace tenon::cpu
