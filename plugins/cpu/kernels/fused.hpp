// SPDX-License-Identifier: Apache-2.0
// fused.hpp: a kernel's node and the elementwise nodes that run with it in one step.
//
// An elementwise node joins when it computes on the kernel's whole shape in the kernel's class of float: before the kernel
// it feeds one of its inputs, after it takes what it made; whatever else it reads or makes is loaded or stored beside. Where
// the kernel walks in logical order dropout joins too, and operands may be smaller and repeat.
// Invariant: what joins in groups_of is what FusedNodes turns into chains.
#pragma once

#include "arrangement.hpp"
#include "chain.hpp"

#include <optional>

namespace tenon::cpu {

// At most this many nodes join on either side: a bias, an activation, a dropout and a residual.
inline constexpr uint32_t most_joining = 4;

// What relu was given, made again of x on the way to the batch norm's gradient, which reads x too, and read by relu's gradient alone:
// two nodes that the kernel of the third computes itself (ADR 0043).
struct MadeAgain {
  uint32_t apply, relu_grad, kernel;
};

// Family::takes of kernels: their node and the elementwise neighbours that join it. [any-thread; cannot fail]
Nodes kernel_nodes(const FragmentView& fragment, uint32_t at);

// The one node from `first` on, the first of a group, that is neither elementwise nor a dropout, nor made again.
uint32_t kernel_of(const FragmentView& fragment, uint32_t first) noexcept;

// The kernel's node of a group, and the group's nodes around it.
struct KernelGroup {
  const tn_node& node;
  uint32_t first, kernel, end;
  std::optional<MadeAgain> again{};
};
// Of the nodes [first, end) that kernel_nodes took. [any-thread; cannot fail]
KernelGroup kernel_group(const FragmentView& fragment, uint32_t first, uint32_t end) noexcept;

// The class that a kernel of this node computes in.
Reg kernel_class(const FragmentView& fragment, const tn_node& kernel) noexcept;

// Family::in_place of kernels of the whole shape: a row, or a stretch, is read before it is written.
bool whole_in_place(const tn_node& node, uint32_t input, uint32_t output);

class FusedNodes {
 public:
  FusedNodes(Builder& builder, Arrangement& arrangement, const KernelGroup& group)
      : builder_(builder),
        fragment_(builder.fragment()),
        arrangement_(arrangement),
        first_(group.first),
        kernel_(group.kernel),
        end_(group.end),
        again_(group.again) {}

  // The chain that gives the kernel these inputs of its node; before any `write`. [may fail]
  Result<Chain> read(std::span<const uint32_t> tensors);
  // The chain that gives them once more, from memory, where the one of `read` has stored all of them that it made; else
  // empty. [may fail]
  Result<Chain> read_again(std::span<const uint32_t> tensors);
  // The chain that takes the kernel's output of the whole shape; empty when nobody wants it and nothing else is to be
  // made. [may fail]
  Result<Chain> write(uint32_t tensor);

 private:
  struct Values {
    Chain& chain;
    std::vector<Chain::Value> of;  // by tensor
  };
  // The dtype in which a chain loads or stores a tensor: its own, if that is of the kernel's class.
  uint32_t stored_dtype(uint32_t tensor) const;
  // Whether a node at or after `from`, or the fragment's caller, reads the tensor.
  bool wanted(uint32_t tensor, uint32_t from) const;
  // Whether the kernel computes the node, of those before it, itself.
  bool is_kernels_own(uint32_t node) const noexcept {
    return again_ && (node == again_->apply || node == again_->relu_grad);
  }
  Result<Chain::Value> value_of(Values& values, uint32_t tensor);
  Status add(Values& values, const tn_node& node, uint32_t read_from);

  const Builder& builder_;
  const FragmentView& fragment_;
  Arrangement& arrangement_;
  uint32_t first_, kernel_, end_;
  std::optional<MadeAgain> again_;
};

}  // namespace tenon::cpu
