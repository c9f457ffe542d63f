// SPDX-License-Identifier: Apache-2.0
// contraction.hpp: a graph whose nodes are put together into groups, always without a cycle.
//
// Groups are kept in an order in which they can run. Putting some together looks only at what stands between the first and
// the last of them in that order: what depends on them goes behind, what they depend on before (Pearce and Kelly's way of
// keeping an order under new edges), so the work is that of the neighbourhood and not of the graph.
// Invariant: group A stands before group B whenever a node of B needs a node of A.
#pragma once

#include <tenon/graph.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::fusion {

class Contraction {
 public:
  static constexpr uint32_t no_limit = UINT32_MAX;

  // Every node a group of its own, called by the node's number.
  explicit Contraction(const Graph& graph);

  uint32_t group_of(uint32_t node) const noexcept { return group_of_[node]; }
  // Ascending. Empty for a group that went into another.
  std::span<const uint32_t> nodes_of(uint32_t group) const noexcept { return nodes_[group]; }

  // What came of putting groups together.
  struct Outcome {
    bool done = false;
    std::vector<uint32_t>
        path{};            // not done: nodes outside the groups through which one of them reaches another
    bool gave_up = false;  // not done: `limit` groups were looked at, and it is still not known
  };
  // Makes one group of several; the group is then called by the smallest of their names. Nothing changes when a path
  // leaves them and comes back. Looks at no more than `limit` groups.
  Outcome join(std::span<const uint32_t> groups, uint32_t limit = no_limit);
  // Cuts a group after `count` of its nodes; what a prefix needs is in the prefix, for nodes stand in run order. Returns the
  // name of the second part. Nothing is joined after the first cut.
  uint32_t split(uint32_t group, size_t count);
  // All groups, in an order in which they can run.
  std::vector<uint32_t> in_order() const;

 private:
  enum class Mark : uint8_t { none, inside, before, after };

  template <class Visit>
  void for_users(uint32_t group, Visit&& visit) const;
  template <class Visit>
  void for_sources(uint32_t group, Visit&& visit) const;
  bool find_after(std::span<const uint32_t> groups, uint32_t limit, Outcome& outcome);
  bool find_before(std::span<const uint32_t> groups, uint32_t limit, Outcome& outcome);
  std::vector<uint32_t> path_to(uint32_t last) const;
  void reorder(uint32_t joined);
  void clear_marks(std::span<const uint32_t> groups);

  const Graph& graph_;
  std::vector<uint32_t> group_of_;
  std::vector<std::vector<uint32_t>> nodes_;
  std::vector<uint64_t> place_;  // by group; only their order means something
  std::vector<Mark> mark_;       // by group, none between calls
  std::vector<uint32_t> came_from_;
  std::vector<uint32_t> before_, after_;  // of the call under way
  uint64_t first_ = 0, last_ = 0;
};

}  // namespace tenon::fusion
