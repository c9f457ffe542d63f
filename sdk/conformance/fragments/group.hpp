// SPDX-License-Identifier: Apache-2.0
// group.hpp: a fragment of several nodes as the kit draws it, runs it and makes it smaller.
//
// Values are numbered; a node reads and makes values. Those listed as inputs and outputs are bound at launch and lie as
// their operand says; constants are part of the fragment; whatever else is an inner value and has no memory at all.
// Invariant: nodes stand in an order in which they can run, and every value that is read is an input, a constant, or made
// before.
#pragma once

#include "conformance/objects.hpp"
#include "conformance/ops/trial.hpp"

#include <tenon/author/fragment_builder.hpp>

#include <optional>

namespace tenon::conform {

struct GroupValue {
  Operand operand{};
  bool constant = false;
};

struct GroupNode {
  const Row* row = nullptr;
  uint32_t subject = TN_DTYPE_NONE;   // the dtype it is about
  std::vector<uint32_t> in{}, out{};  // values; TN_ABSENT where left out
  std::vector<AttributeValue> attributes{};
};

struct Group {
  std::vector<GroupValue> values{};
  std::vector<GroupNode> nodes{};
  std::vector<uint32_t> inputs{}, outputs{};  // values, in the order of bindings
  std::vector<tn_alias> aliases{};
  uint64_t value_seed = 0;
  bool specials = false;

  uint32_t add(Operand operand) {
    values.push_back({.operand = std::move(operand)});
    return static_cast<uint32_t>(values.size() - 1);
  }
  uint32_t add_input(Operand operand) {
    inputs.push_back(add(std::move(operand)));
    return inputs.back();
  }
  const Operand& operand(uint32_t value) const noexcept { return values[value].operand; }
  bool is_input(uint32_t value) const noexcept;
  bool is_output(uint32_t value) const noexcept;
  // Whether it has neither memory of the caller's nor bytes in the fragment.
  bool is_inner(uint32_t value) const noexcept {
    return !values[value].constant && !is_input(value) && !is_output(value);
  }
  bool is_read(uint32_t value) const noexcept;
  // Bytes that all inner values would take.
  uint64_t inner_bytes() const;
};

// The operand without gaps, at the beginning of its memory. [any-thread; may throw bad_alloc]
Operand dense(Operand operand);
// The node as a trial of its own; inner values lie densely. [any-thread; may throw bad_alloc]
Trial trial_of(const Group& group, size_t node);
// The numbers of an input or a constant that is not derived from others. [any-thread; may throw bad_alloc]
Tensor numbers_of(const Group& group, uint32_t value);

// A way to make a group simpler.
struct Cut {
  enum class Kind {
    node,   // its results become inputs
    result  // its results are all that is given out
  } kind = Kind::node;
  uint32_t at = 0;  // a node
};
// Nothing where the cut leaves no node or changes nothing. [any-thread; may throw bad_alloc]
std::optional<Group> cut(const Group& group, const Cut& by);

// "%2 = add(%0, %1); … gives %2, %5": all that repeats it by hand. [any-thread; may throw bad_alloc]
std::string told(const Group& group);

// A group as a fragment.
class WholeGroup {
 public:
  explicit WholeGroup(const Group& group);
  tn_fragment& fragment() noexcept { return fragment_; }
  const tn_fragment& fragment() const noexcept { return fragment_; }
  // The fragment's tensor of a value.
  uint32_t tensor(uint32_t value) const noexcept { return tensor_[value]; }
  // To change before it is asked about; the identity is made anew by set_identity.
  tn_tensor& raw_tensor(uint32_t value) noexcept { return tensors_[tensor_[value]]; }
  tn_node& raw_node(size_t node) noexcept { return nodes_[node]; }

 private:
  author::FragmentBuilder builder_;
  std::vector<uint32_t> tensor_{};  // of each value
  std::vector<tn_tensor> tensors_{};
  std::vector<tn_node> nodes_{};
  tn_fragment fragment_{};
};

}  // namespace tenon::conform
