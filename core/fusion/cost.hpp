// SPDX-License-Identifier: Apache-2.0
// cost.hpp: what nodes cost on a device, alone and together, by its own bandwidth and launch time.
//
// Invariant: figures depend on the graph and the target alone. A device's own figures are used only where it gives one for
// everything that is compared.
#pragma once

#include <tenon/fusion.hpp>

#include <span>

namespace tenon::fusion {

// What a piece of a graph moves.
struct Traffic {
  uint64_t bytes = 0;     // read from outside and written for outside, each value once
  uint32_t bindings = 0;  // values that cross its border
  uint64_t spilled = 0;   // what does not fit the registers or tiles of one kernel, written and read again
  uint64_t growth = 0;    // of the peak of memory, since a kernel's inputs and outputs all live at once
};

class CostModel {
 public:
  CostModel(const Graph& graph, const FusionTarget& target);

  // Whether the node by itself only gives what lies between launches another shape: a plan launches nothing for it, and nothing
  // moves. [any-thread; does not block; cannot fail]
  bool is_view(uint32_t node) const noexcept;
  // Nodes are ascending. [one thread]
  Traffic traffic(std::span<const uint32_t> nodes);
  // Launch and memory. A byte that the peak grows by costs as much as moving a hundredth of one.
  double cost_ns(const Traffic& traffic) const noexcept;
  // Computing a small value once for each element of a larger one.
  double recomputation_ns(uint64_t elements_now, uint64_t elements_then, size_t nodes) const noexcept;

 private:
  bool inside(uint32_t node) const noexcept { return node != TN_ABSENT && stamp_[node] == now_; }
  // Whether others need it, or it outlives the piece.
  bool leaves(uint32_t value) const noexcept;
  // The node of the piece after which nobody reads it; TN_ABSENT when it lives on.
  uint32_t end_of(uint32_t value) const noexcept;
  void add_lives(std::span<const uint32_t> nodes, Traffic& traffic);

  const Graph& graph_;
  const FusionTarget& target_;
  std::vector<bool> is_output_;  // per value
  std::vector<uint64_t> bytes_;  // per value
  std::vector<uint32_t> stamp_;  // per node: the question it was last part of
  std::vector<uint32_t> seen_;   // per value, as stamp_
  uint32_t now_ = 0;
};

}  // namespace tenon::fusion
