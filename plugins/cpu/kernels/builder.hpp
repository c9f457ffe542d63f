// SPDX-License-Identifier: Apache-2.0
// builder.hpp: a program under construction: where each tensor of the fragment is, and the steps so far.
//
// Invariant: a tensor that a step reads has a place already; what is neither bound nor constant gets one in the workspace
// when its step is built, and is dense there.
#pragma once

#include "rules.hpp"
#include "step.hpp"
#include "view.hpp"

#include <memory>

namespace tenon::cpu {

class Builder {
 public:
  explicit Builder(const tn_fragment& fragment);
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  const FragmentView& fragment() const noexcept { return fragment_; }
  // Where the tensor is, as its step or a binding left it.
  const Place& place(uint32_t tensor) const noexcept { return places_[tensor]; }
  // Where a step is to write the tensor.
  Place output_place(uint32_t tensor);
  // Room for this run alone.
  Place scratch(uint64_t bytes);
  void add(std::unique_ptr<Step> step) { steps_.push_back(std::move(step)); }
  // Fills the outputs that no step wrote: those listed twice, and those that are inputs or constants.
  Status copy_the_rest();

  uint64_t workspace_bytes() const noexcept { return workspace_; }
  std::vector<std::unique_ptr<Step>> take_steps() { return std::move(steps_); }
  std::vector<std::unique_ptr<std::byte[]>> take_constants() { return std::move(constants_); }

 private:
  std::vector<tn_tensor> tensors_;  // the fragment's; what lives only inside the program is dense
  tn_fragment raw_;
  FragmentView fragment_;
  std::vector<Place> places_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<std::unique_ptr<std::byte[]>> constants_;
  uint64_t workspace_ = 0;
};

// The nodes [first, end) of one step: elementwise neighbours, or a single node of another kind.
struct Group {
  uint32_t first, end;
  Role role;
};
std::vector<Group> groups_of(const FragmentView& fragment);

// Each adds the steps of its nodes. [any-thread; may block; may fail]
Status build_elementwise(Builder& builder, const Group& group);
Status build_reduction(Builder& builder, const tn_node& node);
Status build_matmul(Builder& builder, const tn_node& node, unsigned threads);
Status build_movement(Builder& builder, const tn_node& node);

// Bit i: declared alias i is honoured: its output may be bound to its input, because each element is read where it is
// written, before it is. Only a fragment that is one elementwise pass honours any.
uint64_t honoured_aliases(const FragmentView& fragment, const std::vector<Group>& groups);

}  // namespace tenon::cpu
