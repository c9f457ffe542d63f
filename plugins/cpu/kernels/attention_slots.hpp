// SPDX-License-Identifier: Apache-2.0
// attention_slots.hpp: which blocks of queries a slot computes, and what it asks memory for meanwhile.
//
// Invariant: every block of every head is one slot's, whatever their numbers.
#pragma once

#include "attention_form.hpp"

namespace tenon::cpu {

// Blocks side by side, so that a slot meets few heads. Of a head they alternate between early and late ones, which see few keys
// and many where the form is causal: slots of several blocks have about as much to do.
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
void prefetch_rows(const AttentionForm& form, const Run& run, const HeadRows& tensor, int64_t matrix,
                   int64_t row, int64_t end) noexcept {
  constexpr int64_t line = 64 / sizeof(T);
  const T* const head = form.rows<const T>(run, tensor, matrix);
  for (; row < end; ++row) {
    for (int64_t at = 0; at < form.width; at += line) __builtin_prefetch(head + row * tensor.row + at);
  }
}

// Null: not asked for.
struct NextRows {
  const HeadRows *q, *k, *v;
};

// While `task` is worked on the slot's next queries arrive, and of the next head's keys and values as large a part as the block
// is of its queries, as far as a core's own cache has room for it.
template <class T>
void prefetch_next(const AttentionForm& form, const Run& run, const NextRows& rows, const SlotTasks& tasks,
                   int64_t task) noexcept {
  constexpr int64_t most_bytes = 128 << 10;  // of keys, and of values
  const SlotTasks::Task now = tasks.at(task);
  if (task + 1 < tasks.end) {
    const SlotTasks::Task next = tasks.at(task + 1);
    prefetch_rows<T>(form, run, *rows.q, next.matrix, next.query,
                     std::min(next.query + tasks.queries, form.queries));
  }
  if (rows.k == nullptr || !tasks.works_on(now.matrix + 1)) return;
  const int64_t most = most_bytes / std::max<int64_t>(form.width * static_cast<int64_t>(sizeof(T)), 1);
  const int64_t from = form.keys * now.turn / tasks.blocks,
                to = std::min(form.keys * (now.turn + 1) / tasks.blocks, from + most);
  prefetch_rows<T>(form, run, *rows.k, now.matrix + 1, from, to);
  prefetch_rows<T>(form, run, *rows.v, now.matrix + 1, from, to);
}

}  // namespace tenon::cpu
