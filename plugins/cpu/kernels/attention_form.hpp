// SPDX-License-Identifier: Apache-2.0
// attention_form.hpp: what one attention node computes, as figures, and its scores block by block.
//
// Invariant: every operand is in the type computed in, its rows have unit stride, and a head's rows share a stride.
#pragma once

#include "attention_rows.hpp"
#include "step.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::cpu {

inline constexpr double log2_e = 1.4426950408889634074, ln_2 = 0.69314718055994530942;

// A tensor [B, H, rows, …]: strides in elements.
struct HeadRows {
  Place place{};
  int64_t batch = 0, head = 0, row = 0;
  bool there() const noexcept { return place.kind != Place::Kind::none; }
};

struct AttentionForm {
  int64_t batch, heads, queries, keys, width;
  double scale;
  bool causal;
  HeadRows mask{};  // a row for each query; broadcast dims have strides of 0
  int64_t mask_key = 0;
  Isa built_for = isa();

  template <class T>
  const AttentionLoops<T>& loops() const noexcept {
    return attention_loops<T>(built_for);
  }

  // Keys that the query sees are [0, …): all, or those before the last query's share of them.
  int64_t visible(int64_t query) const noexcept {
    return causal ? std::clamp<int64_t>(query + 1 + keys - queries, 0, keys) : keys;
  }
  // The first query that sees the key.
  int64_t first_query(int64_t key) const noexcept {
    return causal ? std::clamp<int64_t>(key - (keys - queries), 0, queries) : 0;
  }
  int64_t matrices() const noexcept { return batch * heads; }
  // Where the rows of matrix `index` begin.
  template <class T>
  T* rows(const Run& run, const HeadRows& tensor, int64_t index) const noexcept {
    T* const base = reinterpret_cast<T*>(run.at(tensor.place));
    return base + index / heads * tensor.batch + index % heads * tensor.head;
  }
  // Those of its mask, or null.
  template <class T>
  const T* mask_rows(const Run& run, int64_t index) const noexcept {
    return mask.there() ? rows<const T>(run, mask, index) : nullptr;
  }
};

// A softmax of no key.
template <class T>
void begin(Softmax<T>& softmax) noexcept {
  std::fill_n(softmax.largest, queries_of<T>, -std::numeric_limits<T>::infinity());
  std::fill_n(softmax.sum, queries_of<T>, T(0));
}
template <class T>
bool sees_no_key(const Softmax<T>& softmax, uint32_t query) noexcept {
  return softmax.largest[query] == -std::numeric_limits<T>::infinity();
}
// What its sums are multiplied with to be its row; a row that sees no key is 0.
template <class T>
T inverse_sum(const Softmax<T>& softmax, uint32_t query) noexcept {
  return sees_no_key(softmax, query) ? T(0) : 1 / softmax.sum[query];
}
// ln Σ e^score; -∞ of no key.
template <class T>
float log_sum(const Softmax<T>& softmax, uint32_t query) noexcept {
  const double largest = softmax.largest[query], sum = softmax.sum[query];
  return static_cast<float>(sees_no_key(softmax, query) ? largest : largest * ln_2 + std::log(sum));
}

// A block of queries and of keys of one head.
template <class T>
struct ScoreBlock {
  const T* turned;  // the queries, scaled: [width][queries_of<T>]
  const T* keys;    // its first row
  int64_t key_row;
  const T* mask;  // of the head, or null
  int64_t query, key;
  uint32_t queries, count;  // as many queries and keys
};

// q·k·scale + mask in powers of two; -∞ where the query does not see the key. [keys][queries_of<T>].
// [worker thread; does not block; cannot fail]
template <class T>
void compute_scores(const AttentionForm& form, const ScoreBlock<T>& block, T* scores) noexcept;

// The same for scores that are there already, in powers of two: what masks them. [worker thread; does not block; cannot fail]
template <class T>
void mask_scores(const AttentionForm& form, const ScoreBlock<T>& block, T* scores) noexcept;

// How many workers a step over `tasks` is worth that makes `products` multiplications.
inline uint64_t attention_slots(uint64_t tasks, double products, unsigned threads) noexcept {
  constexpr double worth_a_thread = 256 << 10;
  const auto worth = static_cast<uint64_t>(std::min(products / worth_a_thread, 1e6));
  return std::clamp<uint64_t>(std::min<uint64_t>(tasks, worth), 1, std::max(1u, threads));
}

}  // namespace tenon::cpu
