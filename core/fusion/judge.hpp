// SPDX-License-Identifier: Apache-2.0
// judge.hpp: what the device says of pieces of a graph.
//
// Invariant: equal pieces are asked about once.
#pragma once

#include "fusion/cost.hpp"
#include "fusion/piece_key.hpp"

#include <string>
#include <unordered_map>

namespace tenon::fusion {

// A piece and what is predicted of it.
struct Opinion {
  Support support{};
  Traffic traffic{};
  double cost_ns = 0;   // by the device's figure where it has one for this piece and each of its nodes
  double alone_ns = 0;  // of its nodes one by one, by the same measure
  uint64_t bytes_alone = 0;
  uint32_t launches_alone = 0;  // one for each node that is no view
  bool view = false;            // a reshape alone, for which nothing runs
  double gain_ns() const noexcept { return alone_ns - cost_ns; }
  // Whether the device runs it as one kernel.
  bool is_one() const noexcept {
    return support.verdict == Verdict::native || support.verdict == Verdict::converted;
  }
};

class Judge {
 public:
  Judge(const Graph& graph, const FusionTarget& target)
      : graph_(graph), target_(target), costs_(graph, target), keys_(graph) {}

  // Of nodes, ascending. [one thread; may fail]
  Result<Opinion> ask(std::span<const uint32_t> nodes);
  CostModel& costs() noexcept { return costs_; }
  uint64_t questions() const noexcept { return questions_; }

 private:
  Result<Support> support(std::span<const uint32_t> nodes);

  const Graph& graph_;
  const FusionTarget& target_;
  CostModel costs_;
  PieceKeys keys_;
  std::unordered_map<std::string, Support> answers_{};
  uint64_t questions_ = 0;
};

}  // namespace tenon::fusion
