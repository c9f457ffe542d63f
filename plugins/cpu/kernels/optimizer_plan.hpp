// SPDX-License-Identifier: Apache-2.0
// optimizer_plan.hpp: in which order a group of optimizer and loss-scaling nodes runs as one step, and what it need not
// write.
//
// A node's stage comes after those of all it reads. A gradient that check_finite_and_unscale divides for optimizers of the
// group alone is never written: they divide what they read ("folded").
// Invariant: stages depend on the fragment alone, so what `supports` says of aliases is what is built.
#pragma once

#include <tenon/author/aliases.hpp>
#include <tenon/author/op_update.hpp>

#include <vector>

namespace tenon::cpu {

using author::FragmentView;

// Whether a node of this op may be part of such a group.
constexpr bool is_update(uint32_t op) noexcept {
  const std::string_view family = author::op_row(op).family;
  return family == "OPTIMIZER" || family == "SCALING";
}

class UpdatePlan {
 public:
  // The gradient and the scale behind a folded tensor; TN_ABSENT when it is not folded.
  struct Fold {
    uint32_t gradient = TN_ABSENT, scale = TN_ABSENT;
    bool folded() const noexcept { return gradient != TN_ABSENT; }
  };

  // Of the fragment's nodes [first, end). The fragment follows the rules of ops.def.
  UpdatePlan(const FragmentView& fragment, uint32_t first, uint32_t end);

  uint32_t stages() const noexcept { return stages_; }
  uint32_t stage(uint32_t node) const noexcept { return stage_[node - first_]; }
  const Fold& fold(uint32_t tensor) const noexcept { return folds_[tensor]; }
  // Whether the pair may share its memory: its output is written here, element by element where its input is read, and
  // nobody reads the input at the same time or later.
  bool honours(const tn_alias& alias) const;

 private:
  void find_producers();
  void find_folds();
  void find_stages();
  void note_reads();
  bool only_reader(uint32_t tensor, uint32_t node) const;
  template <class F>
  void for_reads(const tn_node& node, F&& f) const;

  struct Reads {
    uint32_t stage = 0, node = TN_ABSENT;  // the last stage that reads it, and a node that does
    bool several = false, elsewhere = false;
  };

  FragmentView fragment_;
  uint32_t first_, end_, stages_ = 0;
  std::vector<uint32_t> producer_;  // of a tensor, where it is a node of the group
  std::vector<uint32_t> stage_;
  std::vector<Fold> folds_;
  std::vector<Reads> reads_;
};

// Whether each declared alias is honoured by the step of nodes [first, end).
// [any-thread; does not block; may throw bad_alloc]
author::Honoured honoured_by_update(const FragmentView& fragment, uint32_t first, uint32_t end);

}  // namespace tenon::cpu
