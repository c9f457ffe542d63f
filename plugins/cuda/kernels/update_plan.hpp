// SPDX-License-Identifier: Apache-2.0
// update_plan.hpp: in which order a fragment of optimizers and loss scaling runs, what it need not write, and what it may
// write in place.
//
// A node's stage comes after those of all it reads. A gradient that check_finite_and_unscale divides for optimizers of the
// fragment alone is never written: they divide what they read ("folded").
// Invariant: within a stage nothing is written that another node reads.
#pragma once

#include <tenon/author/op_update.hpp>

#include <vector>

namespace tenon::cuda {

using author::FragmentView;

class UpdatePlan {
 public:
  // The gradient and the scale behind a folded tensor; TN_ABSENT when it is not folded.
  struct Fold {
    uint32_t gradient = TN_ABSENT, scale = TN_ABSENT;
    bool folded() const noexcept { return gradient != TN_ABSENT; }
  };

  // The fragment follows the rules of ops.def, and all its nodes are updates.
  explicit UpdatePlan(const FragmentView& fragment);

  uint32_t stages() const noexcept { return stages_; }
  uint32_t stage(uint32_t node) const noexcept { return stage_[node]; }
  const Fold& fold(uint32_t tensor) const noexcept { return folds_[tensor]; }
  // The node that makes a tensor, or TN_ABSENT.
  uint32_t producer(uint32_t tensor) const noexcept { return producer_[tensor]; }
  // Whether the pair may share its memory: the output is written element by element where the input is read, and nobody
  // reads the input at the same time or later.
  bool honours(const tn_alias& alias) const;

 private:
  struct Reads {
    uint32_t stage = 0, node = TN_ABSENT;  // the last stage that reads it, and a node that does
    bool several = false, elsewhere = false;
  };

  void find_producers();
  void find_folds();
  void find_stages();
  void put_last(uint32_t node);
  void note_reads();
  template <class F>
  void for_reads(const tn_node& node, F&& f) const;
  bool is_only_reader(uint32_t tensor, uint32_t node) const;
  bool reads_only_what_it_renews(const tn_node& node, uint32_t from, uint32_t output) const;

  FragmentView fragment_;
  uint32_t stages_ = 0;
  std::vector<uint32_t> producer_, stage_;
  std::vector<Fold> folds_;
  std::vector<Reads> reads_;
};

}  // namespace tenon::cuda
