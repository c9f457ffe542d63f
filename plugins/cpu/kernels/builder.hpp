// SPDX-License-Identifier: Apache-2.0
// builder.hpp: a program under construction: where each tensor of the fragment is, and the steps so far.
//
// Invariant: a tensor that a step reads has a place already; what is neither bound nor constant gets one in the workspace
// when its step is built, and is dense there.
#pragma once

#include "rules.hpp"
#include "step.hpp"
#include "view.hpp"

#include <tenon/kernel.h>
#include <tenon/author/aliases.hpp>

namespace tenon::cpu {

class WaySearch;

// What a compile may spend on finding the best way to compute something.
struct Tuning {
  WaySearch* search = nullptr;  // none: the tables decide
  double budget_ms = 0;         // tn_compile_options'
  uint64_t workspace_limit = TN_COMPILE_NO_LIMIT;
};

// Nodes [first, end).
struct Nodes {
  uint32_t first, end;
};

class Builder {
 public:
  // The fragment outlives the builder.
  explicit Builder(const tn_fragment& fragment, const Tuning& tuning = {});
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
  const Tuning& tuning() const noexcept { return tuning_; }
  // Part of the program was measured to take so long.
  void measured(double ns) noexcept { measured_ns_ += ns; }
  double measured_ns() const noexcept { return measured_ns_; }
  void add(std::unique_ptr<Step> step) { steps_.push_back(std::move(step)); }
  // Says where a tensor is that no step before reads or writes.
  void put(uint32_t tensor, const Place& place) { places_[tensor] = place; }
  // The steps that were added since there were `count` of them.
  size_t step_count() const noexcept { return steps_.size(); }
  std::vector<std::unique_ptr<Step>> take_steps_from(size_t count);
  // Fills the outputs that no step wrote: those listed twice, and those that are inputs or constants.
  Status copy_the_rest();

  uint64_t workspace_bytes() const noexcept { return workspace_; }
  Steps take_steps() { return std::move(steps_); }
  std::vector<std::unique_ptr<std::byte[]>> take_constants() { return std::move(constants_); }

 private:
  const tn_fragment& given_;
  std::vector<tn_tensor> tensors_;  // the fragment's; what lives only inside the program is dense
  tn_fragment raw_;
  FragmentView fragment_;
  std::vector<Place> places_;
  Steps steps_;
  std::vector<std::unique_ptr<std::byte[]>> constants_;
  uint64_t workspace_ = 0;
  Tuning tuning_;
  double measured_ns_ = 0;
};

struct Family;

// The nodes [first, end) of one step: elementwise neighbours, neighbours that a family builds together, or a single node,
// with the elementwise neighbours that its family takes in; what runs as one pass; and a product with what uses it up.
struct Group {
  uint32_t first, end;
  const Family* family;
};
std::vector<Group> groups_of(const FragmentView& fragment);
// Of some nodes, products apart from what uses them up.
std::vector<Group> groups_of(const FragmentView& fragment, const Nodes& nodes);
// Why group `i` and the one before it are two steps, where they might have been one; else "".
std::string why_apart(const FragmentView& fragment, const std::vector<Group>& groups, size_t i);

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
