// SPDX-License-Identifier: Apache-2.0
// trace.hpp: one kernel as a list of values: what is loaded from where, and what is computed of it, for one element.
//
// Tracing starts at what is stored and pulls: each tensor is asked for its element at an index, ops that only move
// elements change the index and compute nothing, and what is neither in memory nor reduced here is computed again.
// Invariant: a value's arguments stand before it; equal requests give one value.
#pragma once

#include "index.hpp"
#include "schedule.hpp"

#include <map>
#include <tuple>

namespace tenon::cuda {

// sum (or, where `table` is set, the value it stands for) lies in 0 … extent - 1.
struct Condition {
  Affine sum{};
  int64_t extent = 0;
  auto operator<=>(const Condition&) const = default;
};

struct Value {
  enum class Kind {
    load,  // an element of tensor `tensor` at `sum`
    look_up,  // an element of `tensor` at `sum` + row · `step`, row being argument 0; zero where it is not below `rows`
    number,   // `bits` as a number of `dtype`
    element,  // `sum` as u64
    compute,  // node `node` of its arguments
    select,   // argument 0 where `conditions` hold, else argument 1
    one_hot,  // whether argument 0 is `sum`
    reduced   // the result of reduction `slot` of the kernel
  };
  Kind kind = Kind::number;
  uint32_t dtype = TN_DTYPE_NONE;
  uint32_t tensor = 0, node = 0, slot = 0;
  uint64_t bits = 0;
  int64_t step = 0, rows = 0;
  Affine sum{};
  std::vector<Condition> conditions{};  // of a load: it is made only where all hold
  std::vector<uint32_t> arguments{};
  // Of loads in a kernel that keeps rows: this one is made ahead and kept; or that one was, and has this element.
  bool kept = false;
  uint32_t held = TN_ABSENT;
};

struct Store {
  uint32_t value = 0, tensor = 0;
  Affine sum{};
};

struct Trace {
  Space space;
  std::vector<Value> values{};
  // One for each reduction of the group: the value it folds. Empty for an elementwise group.
  std::vector<uint32_t> folded{};
  size_t folded_values =
      0;             // values before this one belong to what is folded, the rest to what is made of it
  Affine element{};  // the number of the folded element; nothing where no reduction asks for it
  std::vector<Store> stores{};  // by kept loops alone

  // Every sum in it, for Space::simplify.
  std::vector<Affine*> sums();
};

// A kernel that folds the rows of one space several times. Stage i folds with what the stages before it gave; the last two
// stages fold nothing: they make whole rows, and then what there is one of for each row.
struct RowTrace : Trace {
  struct Stage {
    size_t first = 0, by_row = 0, last = 0;  // values; before `by_row` those that a row has one of
    std::vector<uint32_t> slots{};           // of the reductions that it folds
  };
  std::vector<Stage> stages{};
  std::vector<uint32_t> columns{};  // what each sum over rows adds; values of the stage that makes rows

  // Puts a stage's values that depend on no folded loop before the others.
  void part_stages();
};

// The same of a group that keeps rows; TN_UNSUPPORTED also where something moves elements from row to row.
// [any-thread; does not block; may fail]
Result<RowTrace> trace_rows(const author::FragmentView& fragment, const Schedule& schedule,
                            const Group& group);

// The trace of one group of `schedule`. TN_UNSUPPORTED when it is too large. [any-thread; does not block; may fail]
Result<Trace> trace(const author::FragmentView& fragment, const Schedule& schedule, const Group& group);

}  // namespace tenon::cuda
