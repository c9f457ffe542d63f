// SPDX-License-Identifier: Apache-2.0
// lowered.hpp: a fragment whose ops over rows are spelled out in elementwise nodes, moves and reductions.
//
// It keeps the fragment's tensors by their numbers, its inputs, outputs and aliases, and adds tensors and nodes behind them.
// What is added computes in f32 for halves, and in f64 for f64; only what is given to a tensor of the fragment is rounded to its
// type.
// Invariant: it borrows from the fragment that it was made of, and its own parts never move.
#pragma once

#include "index.hpp"

#include <tenon/author/fragment_view.hpp>

#include <deque>
#include <initializer_list>

namespace tenon::cuda {

using author::FragmentView;

// Softmax, losses and normalisations over rows: what `Lowered` spells out. [any-thread; does not block; cannot fail]
bool is_over_rows(uint32_t op) noexcept;

class Lowered {
 public:
  explicit Lowered(const FragmentView& fragment);
  Lowered(const Lowered&) = delete;
  Lowered& operator=(const Lowered&) = delete;

  FragmentView view() const noexcept { return FragmentView(raw_); }

  // For formulas (row_formulas.cpp): a node, and the tensor that it makes.
  // An elementwise op of inputs that broadcast, and its type: that of the last input, or bool for a comparison.
  uint32_t compute(uint32_t op, std::initializer_list<uint32_t> inputs,
                   std::initializer_list<tn_attribute> attributes = {});
  uint32_t cast(uint32_t tensor, uint32_t dtype);
  uint32_t reshape(uint32_t tensor, Dims dims);
  // The dims that `folded` marks are gone.
  uint32_t reduce(uint32_t op, uint32_t tensor, const std::vector<bool>& folded);
  // Whether an index is that of the new last dim.
  uint32_t one_hot(uint32_t indices, int64_t classes);
  // A single element.
  uint32_t number(uint32_t dtype, double value);
  uint32_t number(int64_t value);
  // A tensor of the fragment gets the elements of `from`, rounded to its type.
  void give(uint32_t from, uint32_t to);

 private:
  void refresh() noexcept;
  uint32_t add_tensor(uint32_t dtype, Dims dims);
  uint32_t add_number(uint32_t dtype, uint64_t bits);
  void add_node(uint32_t op, std::span<const uint32_t> inputs, uint32_t output,
                std::vector<tn_attribute> attributes);
  tn_attribute integers(const char* name, Dims values);

  tn_fragment raw_;
  std::vector<tn_tensor> tensors_;
  std::vector<tn_node> nodes_{};
  std::deque<Dims> numbers_{};
  std::deque<uint64_t> constants_{};
  std::deque<std::vector<uint32_t>> operands_{};
  std::deque<std::vector<tn_attribute>> attributes_{};
};

// The formula of `node`, in nodes of `out`. (row_formulas.cpp) [any-thread; does not block; cannot fail]
void spell_out(const tn_node& node, Lowered& out);

}  // namespace tenon::cuda
