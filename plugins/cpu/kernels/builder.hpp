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
  // The fragment outlives the builder.
  explicit Builder(const tn_fragment& fragment);
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  const FragmentView& fragment() const noexcept { return fragment_; }
  // Where the tensor is, as its step or a binding left it; nowhere (Place::Kind::none) for TN_ABSENT.
  Place place(uint32_t tensor) const noexcept { return tensor != TN_ABSENT ? places_[tensor] : Place{}; }
  // Where a step is to write the tensor; nowhere for TN_ABSENT.
  Place output_place(uint32_t tensor);
  // Bytes of the program's own, made at compile.
  Place constant(std::unique_ptr<std::byte[]> bytes);
  // Room for this run alone.
  Place scratch(uint64_t bytes);
  void add(std::unique_ptr<Step> step) { steps_.push_back(std::move(step)); }
  // Fills the outputs that no step wrote: those listed twice, and those that are inputs or constants.
  Status copy_the_rest();

  uint64_t workspace_bytes() const noexcept { return workspace_; }
  std::vector<std::unique_ptr<Step>> take_steps() { return std::move(steps_); }
  std::vector<std::unique_ptr<std::byte[]>> take_constants() { return std::move(constants_); }

 private:
  const tn_fragment& given_;
  std::vector<tn_tensor> tensors_;  // the fragment's; what lives only inside the program is dense
  tn_fragment raw_;
  FragmentView fragment_;
  std::vector<Place> places_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<std::unique_ptr<std::byte[]>> constants_;
  uint64_t workspace_ = 0;
};

struct Family;

// Nodes [first, end).
struct Nodes {
  uint32_t first, end;
};

// The nodes [first, end) of one step: elementwise neighbours, neighbours that a family builds together, or a single node,
// with the elementwise neighbours that its family takes in.
struct Group {
  uint32_t first, end;
  const Family* family;
};
std::vector<Group> groups_of(const FragmentView& fragment);

// The tensors of an elementwise group that someone outside it reads.
std::vector<uint32_t> results_of(const FragmentView& fragment, const Group& group);

// Each adds the steps of its nodes. [any-thread; may block; may fail]
Status build_elementwise(Builder& builder, const Group& group);
Status build_reduction(Builder& builder, const tn_node& node, unsigned threads);
Status build_matmul(Builder& builder, uint32_t first, uint32_t end, unsigned threads);
Status build_conv(Builder& builder, uint32_t first, uint32_t end, unsigned threads);
Status build_pool(Builder& builder, const tn_node& node, unsigned threads);
Status build_movement(Builder& builder, const tn_node& node, unsigned threads);
Status build_indexing(Builder& builder, const tn_node& node, unsigned threads);
Status build_random(Builder& builder, const tn_node& node, unsigned threads);

}  // namespace tenon::cpu
