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

// What one slot of several works on: blocks of queries side by side, so that it meets few heads. Of a head they alternate between
// early and late ones, which see few keys and many where the form is causal: all slots have as much to do.
struct SlotTasks {
  struct Task {
    int64_t matrix, turn, query;  // its number among those of its head; its first query
  };
  int64_t first, end, blocks, queries;  // of a head; of a block

  SlotTasks(const AttentionForm& form, int64_t queries_of_block, uint64_t slot, uint64_t slots) noexcept
      : blocks((form.queries + queries_of_block - 1) / queries_of_block), queries(queries_of_block) {
    const auto all = static_cast<uint64_t>(form.matrices() * blocks);
    first = static_cast<int64_t>(all * slot / slots);
    end = static_cast<int64_t>(all * (slot + 1) / slots);
  }
  Task at(int64_t task) const noexcept {
    const int64_t turn = task % blocks;
    return {task / blocks, turn, (turn % 2 == 0 ? turn / 2 : blocks - 1 - turn / 2) * queries};
  }
  bool works_on(int64_t matrix) const noexcept { return matrix * blocks < end; }
};

// The processor fetches what is read soon, and goes on.
template <class T>
void ask_for(const AttentionForm& form, const Run& run, const HeadRows& tensor, int64_t matrix, int64_t row,
             int64_t end) noexcept {
  constexpr int64_t line = 64 / sizeof(T);
  const T* const head = form.rows<const T>(run, tensor, matrix);
  for (; row < end; ++row) {
    for (int64_t at = 0; at < form.width; at += line) __builtin_prefetch(head + row * tensor.row + at);
  }
}

// While `task` is worked on the slot's next queries arrive, and of the next head's keys and values as large a part as the block
// is of its queries.
template <class T>
void ask_for_next(const AttentionForm& form, const Run& run, const HeadRows& q, const HeadRows& k,
                  const HeadRows& v, const SlotTasks& tasks, int64_t task) noexcept {
  const SlotTasks::Task now = tasks.at(task);
  if (task + 1 < tasks.end) {
    const SlotTasks::Task next = tasks.at(task + 1);
    ask_for<T>(form, run, q, next.matrix, next.query, std::min(next.query + tasks.queries, form.queries));
  }
  if (!tasks.works_on(now.matrix + 1)) return;
  const int64_t from = form.keys * now.turn / tasks.blocks, to = form.keys * (now.turn + 1) / tasks.blocks;
  ask_for<T>(form, run, k, now.matrix + 1, from, to);
  ask_for<T>(form, run, v, now.matrix + 1, from, to);
}

}  // namespace tenon::cpu
