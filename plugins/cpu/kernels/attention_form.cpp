// SPDX-License-Identifier: Apache-2.0
// attention_form.cpp: scores of a block: one product, and what is masked.
//
// Invariant: lanes without a query hold finite numbers or -∞, and nobody reads them.
#include "attention_form.hpp"

#include <limits>

namespace tenon::cpu {
namespace {

// A mask whose rows lie along the keys is turned a square of lanes at a time.
template <class T>
void add_turned(const AttentionForm& form, const ScoreBlock<T>& block, T* scores) noexcept {
  alignas(64) T square[lanes<T> * queries_of<T>] = {};
  const T* const from = block.mask + block.query * form.mask.row + block.key;
  for (uint32_t key = 0; key < block.count; key += lanes<T>) {
    const uint32_t columns = std::min(lanes<T>, block.count - key);
    form.loops<T>().turn({.from = from + key,
                          .from_row = form.mask.row,
                          .to = square,
                          .to_row = queries_of<T>,
                          .rows = block.queries,
                          .columns = columns,
                          .factor = static_cast<T>(log2_e),
                          .factors = nullptr});
    T* const to = scores + key * queries_of<T>;
    for (uint32_t i = 0; i < columns * queries_of<T>; ++i) to[i] += square[i];
  }
}

template <class T>
void add_mask(const AttentionForm& form, const ScoreBlock<T>& block, T* scores) noexcept {
  if (form.mask_key == 1 && form.mask.row != 0) return add_turned(form, block, scores);
  for (uint32_t key = 0; key < block.count; ++key) {
    const T* const from = block.mask + block.query * form.mask.row + (block.key + key) * form.mask_key;
    T* const to = scores + key * queries_of<T>;
    for (uint32_t q = 0; q < block.queries; ++q) to[q] += from[q * form.mask.row] * static_cast<T>(log2_e);
  }
}

// Queries before the first that sees a key are the first lanes of its row.
template <class T>
void hide_later_keys(const AttentionForm& form, const ScoreBlock<T>& block, T* scores) noexcept {
  for (uint32_t key = 0; key < block.count; ++key) {
    const int64_t hidden = form.first_query(block.key + key) - block.query;
    const auto n = std::clamp<int64_t>(hidden, 0, queries_of<T>);
    std::fill_n(scores + key * queries_of<T>, n, -std::numeric_limits<T>::infinity());
  }
}

}  // namespace

template <class T>
void mask_scores(const AttentionForm& form, const ScoreBlock<T>& block, T* scores) noexcept {
  if (block.mask != nullptr) add_mask(form, block, scores);
  if (form.causal && block.key + block.count > form.visible(block.query))
    hide_later_keys(form, block, scores);
}

template <class T>
void compute_scores(const AttentionForm& form, const ScoreBlock<T>& block, T* scores) noexcept {
  form.loops<T>().multiply({.a = block.keys,
                            .a_row = block.key_row,
                            .a_depth = 1,
                            .b = block.turned,
                            .b_depth = queries_of<T>,
                            .c = scores,
                            .c_row = queries_of<T>,
                            .rows = block.count,
                            .columns = queries_of<T>,
                            .depth = static_cast<uint32_t>(form.width),
                            .accumulate = false});
  mask_scores(form, block, scores);
}

template void mask_scores<float>(const AttentionForm&, const ScoreBlock<float>&, float*) noexcept;
template void compute_scores<float>(const AttentionForm&, const ScoreBlock<float>&, float*) noexcept;
template void compute_scores<double>(const AttentionForm&, const ScoreBlock<double>&, double*) noexcept;

}  // namespace tenon::cpu
